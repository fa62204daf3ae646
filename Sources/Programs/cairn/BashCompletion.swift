/// Word completion for bash, generated from the tables of commands and options.
enum BashCompletion {
  static var script: String {
    let all = CompletionTable.commands
    return """
      # bash completion for cairn and cairnd, printed by 'cairn help --completion bash'.

      _cairn_commands='\(all.map(\.name).joined(separator: " "))'
      _cairn_codes='\(CompletionTable.codes.joined(separator: " "))'

      # COMMAND: its options.
      _cairn_options() {
        case $1 in
      \((all + [CompletionTable.daemon]).map { row($0.name, $0.options.map(\.name)) }.joined(separator: "\n"))
        esac
      }

      # COMMAND OPTION: the kind of its value; nothing for a switch.
      _cairn_value() {
        case "$1 $2" in
      \((all + [CompletionTable.daemon]).flatMap(values).joined(separator: "\n"))
        esac
      }

      # COMMAND: the kinds of the words behind it, in order.
      _cairn_operands() {
        case $1 in
      \(all.filter { !$0.operands.isEmpty }.map { row($0.name, $0.operands) }.joined(separator: "\n"))
        esac
      }

      \(engine)

      """
  }

  // MARK: The tables

  private static func row(_ pattern: String, _ words: [String]) -> String {
    "    \(pattern)) echo '\(words.joined(separator: " "))' ;;"
  }

  private static func values(_ command: CompletionTable.Entry) -> [String] {
    command.options.compactMap { option in option.value.map { row("'\(command.name) \(option.name)'", [$0]) } }
  }

  // MARK: The same for all

  private static let engine = #"""
    # The words of the line as they were typed: readline splits them at ':' and '=' too.
    _cairn_words() {
      local i rest=$COMP_LINE trimmed
      words=()
      for ((i = 0; i <= COMP_CWORD; i++)); do
        trimmed=${rest#"${rest%%[![:space:]]*}"}
        if ((i == 0)) || [[ $trimmed != "$rest" ]]; then
          words+=("${COMP_WORDS[i]}")
        else
          words[${#words[@]} - 1]+=${COMP_WORDS[i]}
        fi
        rest=${trimmed#"${COMP_WORDS[i]}"}
      done
    }

    # The value of an option that stands on the line already.
    _cairn_given() {
      local i
      for ((i = 1; i < ${#words[@]} - 1; i++)); do
        case ${words[i]} in
          "$1") echo "${words[i + 1]}" && return ;;
          "$1"=*) echo "${words[i]#*=}" && return ;;
        esac
      done
    }

    # What cairn itself says: the values of KEY in its lines of JSON.
    _cairn_ask() {
      local key=$1 where=()
      shift
      case $1 in
        trail) where=(--state "$(_cairn_given --state)") ;;
        *) where=(--config "$(_cairn_given --config)") ;;
      esac
      [[ ${where[1]} ]] || where=()
      "${words[0]}" "$@" --json "${where[@]}" 2>/dev/null </dev/null | grep -o "\"$key\": *\"[^\"]*\"" |
        sed 's/.*"\([^"]*\)"$/\1/' | sort -u
    }

    # The candidates of a kind.
    _cairn_candidates() {
      case $1 in
        DIR) compgen -d -- "$cur" ;;
        FILE) compgen -f -- "$cur" ;;
        URL)
          case $cur in
            sqlite:*) compgen -f -P sqlite: -- "${cur#sqlite:}" ;;
            *) compgen -W 'sqlite: postgresql://' -- "$cur" ;;
          esac ;;
        CODE) compgen -W "$_cairn_codes" -- "$cur" ;;
        COMMAND) compgen -W "$_cairn_commands" -- "$cur" ;;
        TRAIL) compgen -W "$(_cairn_ask trail trail list)" -- "$cur" ;;
        WORKER) compgen -W "$(_cairn_ask name status | grep -E '^(capture|apply|snapshot|heartbeat|purge)[.]')" -- "$cur" ;;
        APPLY) compgen -W "$(_cairn_ask name status | sed -n 's/^apply[.]//p')" -- "$cur" ;;
        DATABASE) compgen -W "$(_cairn_ask section config show | sed -n 's/^.database[.]\(.*\).$/\1/p')" -- "$cur" ;;
        *'|'*) for kind in ${1//|/ }; do
            case $kind in
              [A-Z]*) _cairn_candidates "$kind" ;;
              *) compgen -W "$kind" -- "$cur" ;;
            esac
          done ;;
        [a-z]*) compgen -W "$1" -- "$cur" ;;
      esac
    }

    _cairn_complete() {
      local words cur command before kind operands i n=0 skip=
      _cairn_words
      cur=${words[${#words[@]} - 1]}
      command=${words[1]-}
      i=2
      if [[ ${words[0]##*/} == cairnd ]]; then
        command=cairnd
        i=1
      elif ((${#words[@]} == 2)); then
        mapfile -t COMPREPLY < <(compgen -W "$_cairn_commands --help --version" -- "$cur")
        return
      fi
      # How many words stand before this one that are no options and no values of options.
      for (( ; i < ${#words[@]} - 1; i++)); do
        if [[ $skip ]]; then
          skip=
        elif [[ ${words[i]} == -* ]]; then
          [[ ${words[i]} == *=* || ! $(_cairn_value "$command" "${words[i]}") ]] || skip=${words[i]}
        else
          n=$((n + 1))
        fi
      done
      before=
      if [[ $skip ]]; then
        kind=$(_cairn_value "$command" "$skip")
      elif [[ $cur == --*=* ]]; then
        kind=$(_cairn_value "$command" "${cur%%=*}")
        before=${cur%%=*}=
        cur=${cur#*=}
      elif [[ $cur == -* ]]; then
        mapfile -t COMPREPLY < <(compgen -W "$(_cairn_options "$command")" -- "$cur")
        return
      else
        read -ra operands <<< "$(_cairn_operands "$command")"
        kind=${operands[n]-}
      fi
      mapfile -t COMPREPLY < <(_cairn_candidates "$kind")
      case $kind in
        DIR | FILE) compopt -o filenames 2>/dev/null ;;
        URL) compopt -o nospace 2>/dev/null ;;
      esac
      # Readline replaces only what stands behind the last ':' or '='.
      local whole=$before$cur stem=
      [[ $COMP_WORDBREAKS == *:* && $whole == *:* ]] && stem=${whole%"${whole##*:}"}
      [[ ! $stem && $COMP_WORDBREAKS == *=* && $whole == *=* ]] && stem=${whole%"${whole##*=}"}
      stem=${stem#"$before"}
      COMPREPLY=("${COMPREPLY[@]#"$stem"}")
    }

    complete -F _cairn_complete cairn cairnd
    """#
}
