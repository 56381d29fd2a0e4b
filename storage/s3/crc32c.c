/* SPDX-License-Identifier: Apache-2.0 */
/* CRC-32C, by the processor's instruction where it has one. The table is made once. */
#include "config.h"

#include "storage/s3/answer.h"

#include <pthread.h>
#include <string.h>

#define POLYNOMIAL 0x82f63b78u /* of Castagnoli, bits reversed */

static uint32_t crc_table[8][256];
static pthread_once_t crc_once = PTHREAD_ONCE_INIT;
static uint32_t (*crc_bytes)(uint32_t crc, const unsigned char *bytes, size_t nbytes);

static uint32_t crc_by_table(uint32_t crc, const unsigned char *bytes, size_t nbytes)
{
    for (; nbytes >= 8; bytes += 8, nbytes -= 8) {
        uint32_t low = crc ^ ((uint32_t)bytes[0] | (uint32_t)bytes[1] << 8 |
                              (uint32_t)bytes[2] << 16 | (uint32_t)bytes[3] << 24);

        crc = crc_table[7][low & 255] ^ crc_table[6][low >> 8 & 255] ^
              crc_table[5][low >> 16 & 255] ^ crc_table[4][low >> 24] ^ crc_table[3][bytes[4]] ^
              crc_table[2][bytes[5]] ^ crc_table[1][bytes[6]] ^ crc_table[0][bytes[7]];
    }
    while (nbytes-- > 0) {
        crc = crc >> 8 ^ crc_table[0][(crc ^ *bytes++) & 255];
    }
    return crc;
}

#ifdef __x86_64__
__attribute__((target("sse4.2"))) static uint32_t
crc_by_instruction(uint32_t crc, const unsigned char *bytes, size_t nbytes)
{
    uint64_t wide = crc;

    for (; nbytes >= 8; bytes += 8, nbytes -= 8) {
        uint64_t word;

        memcpy(&word, bytes, sizeof(word));
        wide = __builtin_ia32_crc32di(wide, word);
    }
    crc = (uint32_t)wide;
    while (nbytes-- > 0) {
        crc = __builtin_ia32_crc32qi(crc, *bytes++);
    }
    return crc;
}
#endif

static void crc_begin(void)
{
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;

        for (int bit = 0; bit < 8; bit++) {
            crc = crc >> 1 ^ ((crc & 1) != 0 ? POLYNOMIAL : 0);
        }
        crc_table[0][i] = crc;
    }
    for (int row = 1; row < 8; row++) {
        for (int i = 0; i < 256; i++) {
            uint32_t before = crc_table[row - 1][i];

            crc_table[row][i] = before >> 8 ^ crc_table[0][before & 255];
        }
    }
    crc_bytes = crc_by_table;
#ifdef __x86_64__
    if (__builtin_cpu_supports("sse4.2")) {
        crc_bytes = crc_by_instruction;
    }
#endif
}

uint32_t nxr_s3_crc32c(uint32_t crc, const void *bytes, size_t nbytes)
{
    pthread_once(&crc_once, crc_begin);
    return ~crc_bytes(~crc, bytes, nbytes);
}
