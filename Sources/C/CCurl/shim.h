// libcurl's setters and getters are variadic functions in macros, which Swift cannot call.
#pragma once
#include <curl/curl.h>

static inline CURLcode cairn_curl_set_long(CURL *easy, CURLoption option, long value) {
  return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode cairn_curl_set_offset(CURL *easy, CURLoption option, curl_off_t value) {
  return (curl_easy_setopt)(easy, option, value);
}
static inline CURLcode cairn_curl_set_pointer(CURL *easy, CURLoption option, const void *value) {
  return (curl_easy_setopt)(easy, option, value);
}
/// Sets CURLOPT_WRITEFUNCTION, CURLOPT_HEADERFUNCTION or CURLOPT_READFUNCTION.
static inline CURLcode cairn_curl_set_write(CURL *easy, CURLoption option,
                                            size_t (*function)(char *, size_t, size_t, void *)) {
  return (curl_easy_setopt)(easy, option, function);
}
/// Sets CURLOPT_SOCKOPTFUNCTION.
static inline CURLcode cairn_curl_set_socket(CURL *easy, CURLoption option,
                                             int (*function)(void *, curl_socket_t, curlsocktype)) {
  return (curl_easy_setopt)(easy, option, function);
}
/// Sets CURLOPT_SEEKFUNCTION.
static inline CURLcode cairn_curl_set_seek(CURL *easy, int (*function)(void *, curl_off_t, int)) {
  return (curl_easy_setopt)(easy, CURLOPT_SEEKFUNCTION, function);
}
static inline CURLcode cairn_curl_get_long(CURL *easy, CURLINFO what, long *value) {
  return (curl_easy_getinfo)(easy, what, value);
}
static inline CURLcode cairn_curl_get_pointer(CURL *easy, CURLINFO what, void *value) {
  return (curl_easy_getinfo)(easy, what, value);
}
