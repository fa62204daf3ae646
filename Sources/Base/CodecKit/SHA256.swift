import CCrypto
import Changes

/// A reusable SHA-256 hasher over libcrypto, for one thread.
///
///     let hash = try SHA256()
///     hash.update([0x61])
///     hash.finalize().count   // 32
package final class SHA256 {
  private let context: OpaquePointer
  private let copy: OpaquePointer

  /// Throws `.unsupported` if libcrypto is configured not to provide SHA-256.
  package init() throws {
    guard let context = EVP_MD_CTX_new() else { throw Self.unavailable }
    guard let copy = EVP_MD_CTX_new() else {
      EVP_MD_CTX_free(context)
      throw Self.unavailable
    }
    self.context = context
    self.copy = copy
    guard EVP_DigestInit_ex(context, EVP_sha256(), nil) == 1 else { throw Self.unavailable }
  }

  deinit {
    EVP_MD_CTX_free(context)
    EVP_MD_CTX_free(copy)
  }

  package func update(_ bytes: UnsafeRawBufferPointer) {
    guard bytes.count > 0 else { return }
    must(EVP_DigestUpdate(context, bytes.baseAddress, bytes.count))
  }

  package func update(_ bytes: [UInt8]) { bytes.withUnsafeBytes { update($0) } }

  /// Returns the hash, 32 bytes, of all bytes added since the last reset, and resets the hasher.
  package func finalize() -> [UInt8] {
    let result = digest(context)
    must(EVP_DigestInit_ex2(context, nil, nil))
    return result
  }

  /// Returns the hash, 32 bytes, of all bytes added since the last reset. More bytes can be added afterwards.
  package func peek() -> [UInt8] {
    must(EVP_MD_CTX_copy_ex(copy, context))
    return digest(copy)
  }

  /// Returns SHA-256(before ‖ content): the chain hash after a block. Call this only if no bytes were added since the
  /// last reset.
  package func chain(before: ChainHash, content: UnsafeRawBufferPointer) -> ChainHash {
    update(before.bytes)
    update(content)
    return ChainHash(finalize()) ?? .zero
  }

  private func digest(_ context: OpaquePointer) -> [UInt8] {
    [UInt8](unsafeUninitializedCapacity: Int(EVP_MAX_MD_SIZE)) { buffer, count in
      var length: UInt32 = 0
      must(EVP_DigestFinal_ex(context, buffer.baseAddress, &length))
      count = Int(length)
    }
  }

  // After a successful init, calls of libcrypto fail only if memory has run out or the context is misused.
  private func must(_ result: Int32) { precondition(result == 1, "libcrypto failed to compute SHA-256") }

  private static var unavailable: CairnError {
    CairnError(
      .unsupported, "libcrypto offers no SHA-256", hint: "check the OpenSSL configuration (openssl.cnf, OPENSSL_CONF)")
  }
}
