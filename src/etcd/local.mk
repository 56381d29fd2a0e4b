# SPDX-License-Identifier: Apache-2.0
# The client of etcd, a module that the library loads when a name is published or looked for there.
# It stays when the library is unloaded (nodelete): libcurl and its TLS library have exit handlers.
if HAVE_ETCD
pkglib_LTLIBRARIES += %D%/nixlrun_etcd.la
%C%_nixlrun_etcd_la_SOURCES = %D%/calls.c %D%/client.c %D%/client.h
%C%_nixlrun_etcd_la_CFLAGS = $(AM_CFLAGS) $(CURL_CFLAGS) $(JANSSON_CFLAGS) $(NETTLE_CFLAGS)
%C%_nixlrun_etcd_la_LDFLAGS = $(AM_LDFLAGS) -module -shared -avoid-version -no-undefined \
	-export-symbols-regex '^nxr_etcd_module$$' -Wl,-z,nodelete
%C%_nixlrun_etcd_la_LIBADD = %D%/libnxr_etcd_pure.la $(CURL_LIBS) $(JANSSON_LIBS) $(NETTLE_LIBS)

# What needs no libcurl; unit tests link it, too.
noinst_LTLIBRARIES += %D%/libnxr_etcd_pure.la
%C%_libnxr_etcd_pure_la_SOURCES = \
	%D%/answer.c %D%/answer.h \
	%D%/value.c %D%/value.h
%C%_libnxr_etcd_pure_la_CFLAGS = $(AM_CFLAGS) $(JANSSON_CFLAGS) $(NETTLE_CFLAGS)
endif
EXTRA_DIST += %D%/README %D%/etcd.h
