import Changes

/// The functions that a replicated table definition may call at a target. Each function computes a value, and reads and
/// changes nothing else.
///
/// Functions whose value can be far larger than their arguments are excluded, such as `repeat` and `format`.
enum KnownFunctions {
  private static func words(_ text: String) -> Set<NameKey> {
    Set(text.split(whereSeparator: \.isWhitespace).map { NameKey($0) })
  }

  /// The functions of SQLite that table definitions may call.
  ///
  /// Source: https://sqlite.org/lang_corefunc.html, lang_datefunc.html, lang_mathfunc.html, json1.html
  static let sqlite = words(
    """
    abs char coalesce concat concat_ws glob hex if ifnull iif instr length like likelihood likely lower ltrim max
    min nullif octet_length quote random randomblob replace round rtrim sign soundex substr substring trim typeof
    unhex unicode unistr unistr_quote unlikely upper zeroblob
    current_date current_time current_timestamp date datetime julianday strftime time timediff unixepoch
    acos acosh asin asinh atan atan2 atanh ceil ceiling cos cosh degrees exp floor ln log log10 log2 mod pi pow power
    radians sin sinh sqrt tan tanh trunc
    json json_array json_array_insert json_array_length json_error_position json_extract json_insert json_object json_patch
    json_quote json_remove json_replace json_set json_type json_valid
    jsonb jsonb_array jsonb_array_insert jsonb_extract jsonb_insert jsonb_object jsonb_patch jsonb_remove jsonb_replace
    jsonb_set
    """)

  /// Functions of PostgreSQL's grammar, which take no schema before their names.
  static let postgresSyntax = words("coalesce greatest least nullif row xmlconcat")

  /// Functions of `pg_catalog` that table definitions may call, if the server has them.
  static var inPostgresCatalog: Set<NameKey> { postgres.subtracting(postgresSyntax) }

  /// The functions of PostgreSQL that table definitions may call.
  ///
  /// Source: https://www.postgresql.org/docs/current/functions.html
  static let postgres = postgresSyntax.union(
    words(
      """
      abs acos acosd acosh age array_append array_cat array_dims array_length array_lower array_ndims
      array_position array_positions array_prepend array_remove array_to_json array_upper
      ascii asin asind asinh atan atan2 atan2d atand atanh bit_count bit_length bpchar bool box broadcast btrim cardinality
      cbrt ceil ceiling center char char_length character_length chr cidr circle clock_timestamp concat concat_ws cos cosd
      cosh cot cotd date date_add date_bin date_part date_subtract date_trunc daterange datemultirange decode degrees
      diagonal diameter div encode erf erfc exp extract family float4 float8 floor gcd gen_random_uuid
      get_bit get_byte height host hostmask inet inet_merge inet_same_family initcap int2 int4 int8 int4range
      int4multirange int8range int8multirange interval isempty isfinite json_array_length json_build_array json_build_object
      json_extract_path json_extract_path_text json_object json_strip_nulls json_typeof jsonb_array_length
      jsonb_build_array jsonb_build_object jsonb_concat jsonb_delete jsonb_delete_path jsonb_exists jsonb_exists_all
      jsonb_exists_any jsonb_extract_path jsonb_extract_path_text jsonb_insert jsonb_object jsonb_set jsonb_set_lax jsonb_strip_nulls
      jsonb_typeof justify_days justify_hours justify_interval lcm left length line ln log log10 lower lower_inc lower_inf
      lpad lseg ltrim macaddr macaddr8 macaddr8_set7bit make_date make_interval make_time make_timestamp make_timestamptz
      masklen md5 min_scale mod money multirange name netmask network nextval now num_nonnulls num_nulls numeric
      nummultirange numrange numnode octet_length overlay parse_ident path pg_typeof phraseto_tsquery pi plainto_tsquery
      point polygon position pow power querytree quote_ident quote_literal quote_nullable radians radius random
      range_intersect range_merge range_minus regexp_count regexp_instr regexp_like regexp_match regexp_replace
      regexp_split_to_array regexp_substr replace reverse right round rpad rtrim scale set_bit set_byte
      set_masklen setweight sha224 sha256 sha384 sha512 sign sin sind sinh split_part sqrt starts_with
      statement_timestamp string_to_array strip strpos substr substring tan tand tanh text time timeofday timestamp
      timestamptz timetz timezone to_char to_date to_hex to_json to_jsonb to_number to_timestamp to_tsquery to_tsvector
      transaction_timestamp translate trim_array trim_scale trunc ts_delete ts_filter ts_rank ts_rank_cd tsmultirange
      tsrange tstzmultirange tstzrange tsvector_to_array unistr upper upper_inc upper_inf uuid_extract_timestamp
      uuid_extract_version uuidv4 uuidv7 varbit varchar websearch_to_tsquery width width_bucket xml xmlcomment
      """))

  /// Functions whose value can be several times as large as their arguments. In the size of an expression, their
  /// arguments count twice.
  static let enlarging = words(
    """
    hex json json_array json_array_insert json_insert json_object json_patch json_quote json_replace json_set jsonb
    jsonb_array jsonb_array_insert jsonb_insert jsonb_object jsonb_patch jsonb_replace jsonb_set quote unistr_quote
    array_to_json encode json_build_array json_build_object jsonb_build_array jsonb_build_object jsonb_concat
    jsonb_set_lax quote_ident quote_literal quote_nullable regexp_split_to_array row string_to_array text to_json
    to_jsonb to_tsvector translate xml xmlcomment
    """)

  /// Functions in which one argument sets the size of the value, with the index of that argument. The argument must be
  /// a number of at most ``bytesMax``.
  static let counted = ["randomblob": 0, "zeroblob": 0, "lpad": 1, "rpad": 1]
  static let bytesMax = 1024

  /// Functions that make a large value from a number. In an expression's size, a call counts as one more column.
  static let making: Set<NameKey> = ["randomblob", "zeroblob", "lpad", "rpad", "power", "pow", "exp"]

  /// Functions that match a pattern, with the index of the pattern's argument. The pattern must be a literal that is
  /// fast to match (``DDLParser/check(_:_:)``).
  static let matching: [NameKey: (place: Int, kind: DDLParser.PatternKind)] = [
    "glob": (0, .glob), "like": (0, .like), "regexp_count": (1, .regular), "regexp_instr": (1, .regular),
    "regexp_like": (1, .regular), "regexp_match": (1, .regular), "regexp_replace": (1, .regular),
    "regexp_split_to_array": (1, .regular), "regexp_substr": (1, .regular),
  ]

  /// Functions that compare every part of one argument with every part of another.
  static let searching = words(
    """
    instr trim ltrim rtrim btrim position strpos split_part string_to_array translate ts_delete ts_filter
    jsonb_exists_all jsonb_exists_any jsonb_delete json_patch jsonb_patch
    """)

  /// Functions that replace parts of a text. The replacement must be a literal that is not longer than the replaced
  /// parts.
  static let replacing: Set<NameKey> = ["replace", "regexp_replace"]
}
