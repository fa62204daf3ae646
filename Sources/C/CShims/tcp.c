#include "CShims.h"
#include <netinet/in.h>
#include <sys/socket.h>
// This is the kernel's header, because the C library's header lacks the counters.
#include <linux/tcp.h>

uint64_t cairn_tcp_moved(int descriptor) {
  struct tcp_info info = {0};
  socklen_t length = sizeof info;
  if (getsockopt(descriptor, IPPROTO_TCP, TCP_INFO, &info, &length) != 0) return 0;
  return info.tcpi_bytes_acked + info.tcpi_bytes_received;
}

void cairn_tcp_watch(int descriptor, int seconds) {
  int on = 1, idle = seconds / 2, pause = 1, milliseconds = seconds * 1000;
  setsockopt(descriptor, SOL_SOCKET, SO_KEEPALIVE, &on, sizeof on);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPIDLE, &idle, sizeof idle);
  setsockopt(descriptor, IPPROTO_TCP, TCP_KEEPINTVL, &pause, sizeof pause);
  setsockopt(descriptor, IPPROTO_TCP, TCP_USER_TIMEOUT, &milliseconds, sizeof milliseconds);
}
