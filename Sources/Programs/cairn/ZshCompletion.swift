import Changes

/// Word completion for zsh, generated from the tables of commands and options.
enum ZshCompletion {
  static var script: String {
    let commands = CompletionTable.commands
    return """
      #compdef cairn cairnd
      # zsh completion for cairn and cairnd, printed by 'cairn help --completion zsh'.

      _cairn_commands=(
      \(commands.map { "  \((escaped($0.name) + ":" + $0.summary).shellWord)" }.joined(separator: "\n"))
      )
      _cairn_codes=(\(CompletionTable.codes.joined(separator: " ")))

      # COMMAND: completes its options and operands.
      _cairn_arguments() {
        case $1 in
      \((commands + [CompletionTable.daemon]).map(row).joined(separator: "\n"))
        esac
      }

      \(engine)

      """
  }

  private static func row(_ command: CompletionTable.Entry) -> String {
    let options = command.options.map { option in
      let help = escaped(option.help)
      guard let value = option.value else { return "\(option.name)[\(help)]" }
      return "\(option.name)=[\(help)]:\(escaped(value)): _cairn_kind \(value.shellQuoted)"
    }
    let first = command.name == CompletionTable.daemon.name ? [] : ["1:command: "]
    let operands = command.operands.enumerated().map { number, kind in
      "\(number + 2):\(escaped(kind)): _cairn_kind \(kind.shellQuoted)"
    }
    let specs = (first + operands + options).map { "      \($0.shellWord)" }
    return "    \(command.name)) _arguments \\\n\(specs.joined(separator: " \\\n")) ;;"
  }

  /// Returns a text in which `_arguments` finds no colons and brackets of its own.
  private static func escaped(_ text: String) -> String {
    var result = ""
    for character in text {
      if ":[]\\".contains(character) { result.append("\\") }
      result.append(character)
    }
    return result
  }

  private static let engine = #"""
    # The value of an option that is on the line already.
    _cairn_given() {
      local i
      for ((i = 2; i < CURRENT; i++)); do
        case ${words[i]} in
          $1) print -r -- "${(Q)words[i + 1]}" && return ;;
          $1=*) print -r -- "${(Q)words[i]#*=}" && return ;;
        esac
      done
    }

    # The output of cairn itself: the values of KEY in its lines of JSON.
    _cairn_ask() {
      local key=$1 option=--config value
      local -a where
      shift
      [[ $1 == trail ]] && option=--state
      value=$(_cairn_given $option)
      [[ -n $value ]] && where=($option $value)
      "${(Q)words[1]}" "$@" --json $where 2>/dev/null </dev/null | grep -o "\"$key\": *\"[^\"]*\"" |
        sed 's/.*"\([^"]*\)"$/\1/' | sort -u
    }

    # KIND: completes a word of this kind.
    _cairn_kind() {
      local kind
      local -a found
      case $1 in
        *'|'*)
          for kind in ${(s:|:)1}; do _cairn_kind $kind; done
          return 0 ;;
        DIR) _files -/ && return ;;
        FILE) _files && return ;;
        URL)
          if compset -P 'sqlite:'; then _files && return; fi
          compadd -S '' -- sqlite: postgresql:// && return ;;
        CODE) found=($_cairn_codes) ;;
        COMMAND) found=(${_cairn_commands%%:*}) ;;
        TRAIL) found=(${(f)"$(_cairn_ask trail trail list)"}) ;;
        WORKER) found=(${(f)"$(_cairn_ask name status | grep -E '^(capture|apply|snapshot|heartbeat|purge)[.]')"}) ;;
        APPLY) found=(${(f)"$(_cairn_ask name status | sed -n 's/^apply[.]//p')"}) ;;
        DATABASE) found=(${(f)"$(_cairn_ask section config show | sed -n 's/^.database[.]\(.*\).$/\1/p')"}) ;;
        [a-z]*) found=($1) ;;
        *) _message -r "$1" && return ;;
      esac
      compadd -- $found
    }

    _cairn() {
      if [[ ${service-} == cairnd || ${words[1]:t} == cairnd ]]; then
        _cairn_arguments cairnd
      elif ((CURRENT == 2)); then
        _describe -t commands command _cairn_commands
        compadd -- --help --version
      else
        _cairn_arguments ${words[2]}
      fi
    }

    if [[ ${funcstack[1]-} == _cairn ]]; then _cairn "$@"; else compdef _cairn cairn cairnd; fi
    """#
}

extension String {
  /// The kind of a word, as one word of an action of `_arguments`, which divides it at blanks and bars.
  fileprivate var shellQuoted: String { "\"\(self)\"" }
}
