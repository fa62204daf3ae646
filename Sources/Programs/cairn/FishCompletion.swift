import Changes

/// Word completion for fish, generated from the tables of commands and options.
enum FishCompletion {
  static var script: String {
    let commands = CompletionTable.commands
    return """
      # fish completion for cairn and cairnd, printed by 'cairn help --completion fish'.

      set -g __cairn_commands \(commands.map(\.name).joined(separator: " "))
      set -g __cairn_codes \(CompletionTable.codes.joined(separator: " "))

      \(engine)

      complete -c cairn -f
      complete -c cairn -n '__cairn_is' -l help -d 'print the commands'
      complete -c cairn -n '__cairn_is' -l version -d 'print the version'
      \(commands.map { "complete -c cairn -n '__cairn_is' -a \($0.name) -d \($0.summary.shellWord)" }
        .joined(separator: "\n"))
      \(commands.flatMap(rows).joined(separator: "\n"))
      complete -c cairnd -f
      \(CompletionTable.daemon.options.map { "complete -c cairnd \(words($0))" }.joined(separator: "\n"))

      """
  }

  private static func rows(_ command: CompletionTable.Entry) -> [String] {
    let head = "complete -c cairn -n '__cairn_is \(command.name)'"
    let kinds = command.operands.map { "\"\($0)\"" }.joined(separator: " ")
    let operands = "\(head) -a '(__cairn_operand \"\(command.valued.joined(separator: " "))\" \(kinds))'"
    return (command.operands.isEmpty ? [] : [operands]) + command.options.map { "\(head) \(words($0))" }
  }

  private static func words(_ option: Option) -> String {
    let value = option.value.map { " -x -a '(__cairn_kind \"\($0)\")'" } ?? ""
    return "-l \(option.name.dropFirst(2))\(value) -d \(option.help.shellWord)"
  }

  private static let engine = #"""
    # [COMMAND]: whether the line has this command; without COMMAND, whether it has none yet.
    function __cairn_is
      set -l words (commandline -opc)
      if test (count $argv) -eq 0
        test (count $words) -eq 1
      else
        test (count $words) -ge 2; and test $words[2] = $argv[1]
      end
    end

    # The value of an option that is on the line already.
    function __cairn_given
      set -l words (commandline -opc)
      for i in (seq (count $words))
        if test $words[$i] = $argv[1]; and test $i -lt (count $words)
          echo $words[(math $i + 1)]
          return
        else if string match -q -- "$argv[1]=*" $words[$i]
          string replace -r '^[^=]*=' '' -- $words[$i]
          return
        end
      end
    end

    # The output of cairn itself: the values of KEY in its lines of JSON.
    function __cairn_ask
      set -l key $argv[1]
      set -l option --config
      test $argv[2] = trail; and set option --state
      set -l where (__cairn_given $option)
      test -n "$where"; and set where $option $where
      set -l words (commandline -opc)
      $words[1] $argv[2..-1] --json $where 2>/dev/null </dev/null | grep -o "\"$key\": *\"[^\"]*\"" |
        sed 's/.*"\([^"]*\)"$/\1/' | sort -u
    end

    # KIND: the candidates of this kind.
    function __cairn_kind
      set -l word (commandline -ct | string replace -r '^--[^=]*=' '')
      switch $argv[1]
        case '*|*'
          for kind in (string split '|' -- $argv[1])
            __cairn_kind $kind
          end
        case DIR
          __fish_complete_directories "$word" ''
        case FILE
          __fish_complete_path "$word" ''
        case URL
          if string match -q -- 'sqlite:*' "$word"
            __fish_complete_path (string replace 'sqlite:' '' -- "$word") '' | string replace -r '^' 'sqlite:'
          else
            printf '%s\n' sqlite: postgresql://
          end
        case CODE
          printf '%s\n' $__cairn_codes
        case COMMAND
          printf '%s\n' $__cairn_commands
        case TRAIL
          __cairn_ask trail trail list
        case WORKER
          __cairn_ask name status | string match -r '^(?:capture|apply|snapshot|heartbeat|purge)[.].*'
        case APPLY
          __cairn_ask name status | string replace -f -r '^apply[.]' ''
        case DATABASE
          __cairn_ask section config show | string replace -f -r '^.database[.](.*).$' '$1'
        case '*'
          string match -r '^[a-z].*' -- $argv[1]
      end
    end

    # OPTIONS-WITH-VALUE KIND...: the candidates of the operand at the cursor.
    function __cairn_operand
      set -l valued (string split ' ' -- $argv[1])
      set -l kinds $argv[2..-1]
      set -l words (commandline -opc)
      set -l number 1
      set -l skips no
      set -e words[1]
      set -e words[1]
      for word in $words
        if test $skips = yes
          set skips no
        else if string match -q -- '-*' $word
          contains -- $word $valued; and set skips yes
        else
          set number (math $number + 1)
        end
      end
      test $skips = no; and test $number -le (count $kinds); and __cairn_kind $kinds[$number]
    end
    """#
}
