import { exitCode, type ExitCode } from "../failure.ts";
import { print } from "../print.ts";

/** `completion SHELL`. The scripts only pass words on and show what `__complete` answers. */
export const printScript = (name: string, shell: string): ExitCode => {
  print((scripts[shell] ?? "").replaceAll("NAME", name).trim());
  return exitCode.ok;
};

/** `:files` and `:directories` stand for what the shell itself completes best. */
const scripts: Record<string, string> = {
  bash: `
_NAME() {
  mapfile -t COMPREPLY < <(NAME __complete bash -- "\${COMP_WORDS[@]:1:COMP_CWORD}" 2> /dev/null)
  case "\${COMPREPLY[0]-}" in
    :files) COMPREPLY=(); compopt -o default ;;
    :directories) COMPREPLY=(); compopt -o dirnames ;;
  esac
}
complete -o nosort -F _NAME NAME
`,
  zsh: `
#compdef NAME
_NAME() {
  local -a lines
  lines=("\${(@f)$(NAME __complete zsh -- "\${(@Q)words[2,CURRENT-1]}" "$PREFIX" 2> /dev/null)}")
  [[ $PREFIX == --*=* ]] && compset -P '*='
  case $lines[1] in
    :files) _files ;;
    :directories) _files -/ ;;
    ?*) _describe -V word lines ;;
  esac
}
if [[ $funcstack[1] == _NAME ]]; then _NAME "$@"; else compdef _NAME NAME; fi
`,
  fish: `
function __NAME_complete
    set -l words (commandline -opc)
    set -l current (commandline -ct)
    set -l option (string match --regex -- '^--[^=]+=' "$current")
    set -l value (string replace -- "$option" '' "$current")
    set -l lines (NAME __complete fish -- $words[2..] "$current" 2> /dev/null)
    switch "$lines[1]"
        case :files
            set lines (__fish_complete_path "$value")
        case :directories
            set lines (__fish_complete_directories "$value")
    end
    for line in $lines
        echo "$option$line"
    end
end
complete -c NAME -f -k -a '(__NAME_complete)'
`,
};
