#include "CToml.h"

namespace {
struct broken_promise {};
}  // namespace

// Some texts that are not TOML violate assertions of toml++ 3.3. They must be errors like all others, also in a release
// build, in which the compiler would assume that assertions hold. cairn_toml_parse catches the exceptions.
#undef NDEBUG
#define TOML_ASSERT(expression) \
  do { \
    if (!(expression)) throw broken_promise{}; \
  } while (false)
#define TOML_HEADER_ONLY 1
#define TOML_EXCEPTIONS 1
#define TOML_ENABLE_FORMATTERS 0
#define TOML_MAX_NESTED_VALUES 32
#include <toml++/toml.h>

#include <algorithm>
#include <cstring>
#include <exception>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

struct cairn_toml {
  toml::table root;
  std::vector<cairn_toml_item> items;
};

namespace {

constexpr int dots_max = 16;

/// Returns the reason why toml++ 3.3 cannot parse a text safely; NULL if there is none. It frees tables by recursion,
/// as deep as keys have dots, and does not limit the dots. At misplaced letters outside of ASCII it reaches code that
/// it declared unreachable. Here, text that is not TOML may be misread, but only after the place where the parser
/// stops.
const char *find_trap(std::string_view text, cairn_toml_place &here) {
  here = {1, 1};
  int dots = 0;
  size_t i = text.substr(0, 3) == "\xef\xbb\xbf" ? 3 : 0;
  const auto step = [&] {
    if (text[i] == '\n') here = {here.line + 1, 1};
    else if ((static_cast<unsigned char>(text[i]) & 0xc0) != 0x80) here.column++;
    i++;
  };
  const auto has = [&](size_t count, char c) { return text.substr(i, count) == std::string(count, c); };
  while (i < text.size()) {
    const char c = text[i];
    if (c == '#') {
      while (i < text.size() && text[i] != '\n') step();
      continue;
    }
    if (c == '"' || c == '\'') {
      const size_t width = has(3, c) ? 3 : 1;
      for (size_t n = 0; n < width; n++) step();
      while (i < text.size() && !has(width, c)) {
        if (text[i] == '\n' && width == 1) return nullptr;
        if (c == '"' && text[i] == '\\' && i + 1 < text.size()) step();
        step();
      }
      for (size_t n = 0; n < width && i < text.size(); n++) step();
      // Up to two quotes may precede the three that end a text of many lines.
      for (size_t n = 0; width == 3 && n < 2 && i < text.size() && text[i] == c; n++) step();
      continue;
    }
    if (c == '.' && ++dots > dots_max) return "this key has too many parts";
    if (c == '\n' || std::string_view("=,[]{}").find(c) != std::string_view::npos) dots = 0;
    if (static_cast<unsigned char>(c) >= 0x80) return "letters outside of ASCII stand in quotes only";
    step();
  }
  return nullptr;
}

cairn_toml_place place_of(const toml::source_position &position) {
  return {static_cast<uint32_t>(position.line), static_cast<uint32_t>(position.column)};
}

void flatten(const toml::key *key, const toml::node &node, std::vector<cairn_toml_item> &items) {
  cairn_toml_item item{};
  if (key) {
    item.key = key->data();
    item.key_length = key->length();
    item.key_place = place_of(key->source().begin);
  }
  item.place = place_of(node.source().begin);
  switch (node.type()) {
    case toml::node_type::string: {
      const std::string &text = **node.as_string();
      item.kind = CAIRN_TOML_STRING;
      item.text = text.data();
      item.text_length = text.size();
      break;
    }
    case toml::node_type::integer:
      item.kind = CAIRN_TOML_INTEGER;
      item.integer = **node.as_integer();
      break;
    case toml::node_type::floating_point:
      item.kind = CAIRN_TOML_FLOAT;
      item.real = **node.as_floating_point();
      break;
    case toml::node_type::boolean:
      item.kind = CAIRN_TOML_BOOLEAN;
      item.boolean = **node.as_boolean();
      break;
    case toml::node_type::table: {
      item.kind = CAIRN_TOML_TABLE;
      item.children = node.as_table()->size();
      items.push_back(item);
      for (const auto &[name, child] : *node.as_table()) flatten(&name, child, items);
      return;
    }
    case toml::node_type::array:
      item.kind = CAIRN_TOML_ARRAY;
      item.children = node.as_array()->size();
      items.push_back(item);
      for (const auto &child : *node.as_array()) flatten(nullptr, child, items);
      return;
    default:
      item.kind = CAIRN_TOML_DATE;
      break;
  }
  items.push_back(item);
}

void report(cairn_toml_error *error, cairn_toml_place place, std::string_view text) {
  if (!error) return;
  error->place = place;
  const size_t length = std::min(text.size(), sizeof error->text - 1);
  std::memcpy(error->text, text.data(), length);
  error->text[length] = 0;
}

/// Parses a text. If it is not TOML, returns NULL and sets `error`, or `is_broken` if toml++ cannot describe the error.
cairn_toml *parse(std::string_view text, cairn_toml_error *error, bool &is_broken) {
  is_broken = false;
  try {
    std::unique_ptr<cairn_toml> document(new cairn_toml{toml::parse(text), {}});
    flatten(nullptr, document->root, document->items);
    return document.release();
  } catch (const toml::parse_error &caught) {
    report(error, place_of(caught.source().begin), caught.description());
  } catch (const broken_promise &) {
    is_broken = true;
  } catch (const std::exception &caught) {
    report(error, {1, 1}, caught.what());
  }
  return nullptr;
}

/// Returns the line with an error that toml++ cannot describe: the last line of the shortest beginning with that error.
uint32_t line_of_broken(std::string_view text) {
  std::vector<size_t> ends;
  for (size_t i = 0; i < text.size(); i++)
    if (text[i] == '\n') ends.push_back(i + 1);
  ends.push_back(text.size());
  size_t low = 0, high = ends.size() - 1;
  while (low < high) {
    const size_t middle = (low + high) / 2;
    bool is_broken;
    cairn_toml_free(parse(text.substr(0, ends[middle]), nullptr, is_broken));
    if (is_broken) high = middle;
    else low = middle + 1;
  }
  return static_cast<uint32_t>(low + 1);
}

}  // namespace

cairn_toml *cairn_toml_parse(const char *text, size_t length, cairn_toml_error *error) {
  const std::string_view view(text, length);
  cairn_toml_place place;
  if (const char *trap = find_trap(view, place)) {
    report(error, place, trap);
    return nullptr;
  }
  bool is_broken;
  cairn_toml *document = parse(view, error, is_broken);
  if (is_broken) report(error, {line_of_broken(view), 1}, "this line is not TOML");
  return document;
}

void cairn_toml_free(cairn_toml *document) { delete document; }

const cairn_toml_item *cairn_toml_items(const cairn_toml *document, size_t *count) {
  *count = document->items.size();
  return document->items.data();
}
