#include "CShims.h"
#include <string.h>
#include <sys/xattr.h>

int cairn_db_config_int(sqlite3 *db, int option, int value) {
  int now = 0;
  return sqlite3_db_config(db, option, value, &now);
}

int cairn_db_config_is_on(sqlite3 *db, int option) {
  int now = 0;
  sqlite3_db_config(db, option, -1, &now);
  return now;
}

// CRC-32C, reflected polynomial 0x82F63B78 (RFC 3720, appendix B.4). Check value of "123456789": 0xE3069283.
static uint32_t table[8][256];

__attribute__((constructor)) static void make_table(void) {
  for (uint32_t n = 0; n < 256; n++) {
    uint32_t c = n;
    for (int k = 0; k < 8; k++) c = c & 1 ? (c >> 1) ^ 0x82F63B78u : c >> 1;
    table[0][n] = c;
  }
  for (uint32_t n = 0; n < 256; n++)
    for (int k = 1; k < 8; k++) table[k][n] = (table[k - 1][n] >> 8) ^ table[0][table[k - 1][n] & 0xff];
}

static uint32_t crc_portable(uint32_t crc, const unsigned char *p, size_t n) {
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t w;
    memcpy(&w, p, 8);
    w ^= crc;
    crc = table[7][w & 0xff] ^ table[6][(w >> 8) & 0xff] ^ table[5][(w >> 16) & 0xff] ^ table[4][(w >> 24) & 0xff] ^
          table[3][(w >> 32) & 0xff] ^ table[2][(w >> 40) & 0xff] ^ table[1][(w >> 48) & 0xff] ^ table[0][w >> 56];
  }
  while (n--) crc = (crc >> 8) ^ table[0][(crc ^ *p++) & 0xff];
  return crc;
}

#if defined(__x86_64__)
#include <immintrin.h>
__attribute__((target("sse4.2"))) static uint32_t crc_sse42(uint32_t crc, const unsigned char *p, size_t n) {
  uint64_t c = crc;
  for (; n >= 8; p += 8, n -= 8) {
    uint64_t w;
    memcpy(&w, p, 8);
    c = _mm_crc32_u64(c, w);
  }
  crc = (uint32_t)c;
  while (n--) crc = _mm_crc32_u8(crc, *p++);
  return crc;
}
#endif

uint32_t cairn_crc32c(uint32_t crc, const void *bytes, size_t length) {
  crc = ~crc;
#if defined(__x86_64__)
  if (__builtin_cpu_supports("sse4.2")) return ~crc_sse42(crc, bytes, length);
#endif
  return ~crc_portable(crc, bytes, length);
}

int cairn_has_acl(const char *path) { return getxattr(path, "system.posix_acl_access", NULL, 0) > 0; }
