/* SPDX-License-Identifier: Apache-2.0 */
/* Replaced by the core; here so that the library has an object. */
#include "util/log.h"

