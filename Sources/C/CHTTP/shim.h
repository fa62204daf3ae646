// libmicrohttpd takes its options as variadic arguments, which Swift cannot pass.
#pragma once
#include <microhttpd.h>
#include <sys/socket.h>

struct cairn_http_options {
  /// The descriptor of a listening socket. It belongs to the daemon, even if the daemon cannot be started.
  int listening;
  unsigned connections;
  /// The memory of each connection for the head of a request and for reading its body, in bytes.
  size_t connection_bytes;
  size_t stack_bytes;
  /// The certificate, its key and the trusted authorities, as texts in PEM; NULL without TLS.
  const char *certificate;
  const char *key;
  const char *authorities;
  /// The GnuTLS priority string: the allowed versions and ciphers of TLS.
  const char *priorities;
  void *context;
  MHD_AccessHandlerCallback handle;
  MHD_RequestCompletedCallback completed;
  MHD_NotifyConnectionCallback connection;
  void *(*target)(void *context, const char *uri, struct MHD_Connection *connection);
};

/// Starts a daemon with a thread that accepts connections and one for each connection; NULL if it cannot be started.
static inline struct MHD_Daemon *cairn_http_start(const struct cairn_http_options *o) {
  unsigned flags = MHD_USE_INTERNAL_POLLING_THREAD | MHD_USE_THREAD_PER_CONNECTION | MHD_USE_POLL;
  struct MHD_OptionItem items[16];
  int n = 0;
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_LISTEN_SOCKET, o->listening, NULL};
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_LIMIT, o->connections, NULL};
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_CONNECTION_MEMORY_LIMIT, (intptr_t)o->connection_bytes, NULL};
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_THREAD_STACK_SIZE, (intptr_t)o->stack_bytes, NULL};
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_NOTIFY_COMPLETED, (intptr_t)o->completed, o->context};
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_NOTIFY_CONNECTION, (intptr_t)o->connection, o->context};
  items[n++] = (struct MHD_OptionItem){MHD_OPTION_URI_LOG_CALLBACK, (intptr_t)o->target, o->context};
  if (o->certificate) {
    flags |= MHD_USE_TLS;
    items[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_CERT, 0, (void *)o->certificate};
    items[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_KEY, 0, (void *)o->key};
    items[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_MEM_TRUST, 0, (void *)o->authorities};
    items[n++] = (struct MHD_OptionItem){MHD_OPTION_HTTPS_PRIORITIES, 0, (void *)o->priorities};
  }
  items[n] = (struct MHD_OptionItem){MHD_OPTION_END, 0, NULL};
  return MHD_start_daemon(flags, 0, NULL, NULL, o->handle, o->context, MHD_OPTION_ARRAY, items, MHD_OPTION_END);
}

static inline int cairn_http_descriptor(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CONNECTION_FD);
  return info ? info->connect_fd : -1;
}

static inline const struct sockaddr *cairn_http_address(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_CLIENT_ADDRESS);
  return info ? info->client_addr : NULL;
}

/// Returns the pointer that the callback `connection` stored for this connection.
static inline void *cairn_http_socket_context(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_SOCKET_CONTEXT);
  return info ? info->socket_context : NULL;
}

/// Returns the GnuTLS session of a connection; NULL without TLS.
static inline void *cairn_http_tls_session(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_GNUTLS_SESSION);
  return info ? info->tls_session : NULL;
}

static inline size_t cairn_http_header_bytes(struct MHD_Connection *connection) {
  const union MHD_ConnectionInfo *info = MHD_get_connection_info(connection, MHD_CONNECTION_INFO_REQUEST_HEADER_SIZE);
  return info ? info->header_size : 0;
}
