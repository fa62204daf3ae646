// TOML (https://toml.io) as a flat list of items, by way of toml++ (https://marzer.github.io/tomlplusplus/).
// It throws no exception, and needs memory of a small multiple of the text.
#pragma once
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

enum cairn_toml_kind {
  CAIRN_TOML_TABLE,
  CAIRN_TOML_ARRAY,
  CAIRN_TOML_STRING,
  CAIRN_TOML_INTEGER,
  CAIRN_TOML_FLOAT,
  CAIRN_TOML_BOOLEAN,
  /// A date, a time, or both.
  CAIRN_TOML_DATE,
};

/// A place in a text. Lines and columns count from 1; columns are code points. 0: unknown.
typedef struct cairn_toml_place {
  uint32_t line;
  uint32_t column;
} cairn_toml_place;

/// A value of a document, or a table. The items of a document are in depth-first order: an item's children follow it.
typedef struct cairn_toml_item {
  enum cairn_toml_kind kind;
  /// The number of direct children of a table or an array.
  size_t children;
  /// The key in UTF-8, not ended by 0; NULL for the root and in arrays.
  const char *key;
  size_t key_length;
  cairn_toml_place key_place;
  cairn_toml_place place;
  /// The content of a string.
  const char *text;
  size_t text_length;
  int64_t integer;
  double real;
  int boolean;
} cairn_toml_item;

typedef struct cairn_toml cairn_toml;

typedef struct cairn_toml_error {
  cairn_toml_place place;
  /// The message, ended by 0; a longer one is cut.
  char text[400];
} cairn_toml_error;

/// Parses a text. Returns NULL and sets `error` if the text is not TOML, or has deeper nesting than conf files need.
cairn_toml *cairn_toml_parse(const char *text, size_t length, cairn_toml_error *error);
void cairn_toml_free(cairn_toml *document);

/// Returns the items of a document, which are valid until the document is freed. The first item is the root table.
const cairn_toml_item *cairn_toml_items(const cairn_toml *document, size_t *count);

#ifdef __cplusplus
}
#endif
