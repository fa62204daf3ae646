#pragma once
#include <gnutls/gnutls.h>
#include <gnutls/x509.h>
#include <gnutls/abstract.h>
#include <gnutls/crypto.h>

/// Frees memory that GnuTLS allocated.
static inline void cairn_tls_free(void *memory) { gnutls_free(memory); }
