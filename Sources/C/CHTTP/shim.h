// libmicrohttpd takes its options as variadic arguments, which Swift cannot give.
#pragma once
#include <microhttpd.h>
#include <sys/socket.h>

/// Starts a listener with a thread of its own; NULL when the address cannot be bound.
static inline struct MHD_Daemon *cairn_http_start(const struct sockaddr *address, MHD_AccessHandlerCallback handler,
                                                  void *context, unsigned connections, unsigned timeout_seconds) {
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_EPOLL;
  if (address->sa_family == AF_INET6) flags |= MHD_USE_IPv6;
  return MHD_start_daemon(flags, 0, NULL, NULL, handler, context, MHD_OPTION_SOCK_ADDR, address,
                          MHD_OPTION_CONNECTION_LIMIT, connections, MHD_OPTION_CONNECTION_TIMEOUT, timeout_seconds,
                          MHD_OPTION_CONNECTION_MEMORY_LIMIT, (size_t)32768, MHD_OPTION_END);
}
