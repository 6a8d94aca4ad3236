%% @doc Implements `whittle completion SHELL'. It prints a script that completes the arguments of
%% the command in bash or zsh. The script comes from the same table as the command itself.
-module(whittle_cmd_completion).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "completion", arguments => ["SHELL"], words => ["bash", "zsh"],
      help => "print a script that completes words in bash or zsh: source <(whittle completion "
              "bash)", options => []}.

%% @doc Writes the script for `source <(whittle completion bash)' or the same with `zsh'.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := ["bash"]}) -> script(bash());
run(#{arguments := ["zsh"]}) -> script(zsh());
run(#{arguments := [Shell]}) ->
    whittle_failure:usage(["there is no completion for ", Shell,
                           whittle_suggestion:hint(Shell, ["bash", "zsh"]), "; use bash or zsh"]).

script(Text) -> {ok, #{text => Text, json => unicode:characters_to_binary(Text)}}.

%% bash splits words at `=', so `--target=x' is three words.
bash() ->
    ["_whittle() {\n"
     "    local here=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]}\n"
     "    local words= list= first=\n"
     "    if [[ $here = '=' ]]; then here=\n"
     "    elif [[ $before = '=' ]]; then before=${COMP_WORDS[COMP_CWORD-2]}\n"
     "    fi\n"
     "    case \"$COMP_CWORD:${COMP_WORDS[1]}:$before:$here\" in\n",
     [["        ", Pattern, ") words=\"", lists:join($\s, [Word || {Word, _} <- Words]), $",
       [" list=yes" || IsList], " ;;\n"] || {Pattern, Words, IsList} <- places()],
     "    esac\n"
     "    if [[ $list && $here = *,* ]]; then first=${here%,*}, here=${here##*,}; fi\n"
     "    COMPREPLY=($(compgen -P \"$first\" -W \"$words\" -- \"$here\"))\n"
     "}\n"
     %% If no word matches, bash completes file names.
     "complete -o default -F _whittle whittle\n"].

%% The script also works as a file `_whittle' in a directory of $fpath. If the completion system
%% is not active yet, the script activates it.
zsh() ->
    ["#compdef whittle\n"
     "_whittle() {\n"
     "    local -a offered\n"
     "    local before=${words[CURRENT-1]} here=${words[CURRENT]} list=\n"
     "    if [[ $here = --*=* ]]; then\n"
     "        before=${here%%=*} here=${here#*=}\n"
     "        compset -P '*='\n"
     "    fi\n"
     "    case \"$((CURRENT-1)):${words[2]}:$before:$here\" in\n",
     [["        ", Pattern, ") offered=(", lists:join($\s, [described(Word) || Word <- Words]),
       $), [" list=yes" || IsList], " ;;\n"] || {Pattern, Words, IsList} <- places()],
     "    esac\n"
     "    if [[ -n $list ]]; then compset -P '*,'; fi\n"
     "    if (( $#offered )); then _describe word offered || _files; else _files; fi\n"
     "}\n"
     "if [[ $funcstack[1] = _whittle ]]; then _whittle \"$@\"\n"
     "else\n"
     "    (( $+functions[compdef] )) || { autoload -Uz compinit && compinit -i -D; }\n"
     "    compdef _whittle whittle\n"
     "fi\n"].

%% Writes a word and, after a colon, its description.
described({Word, Means}) ->
    whittle_program:quoted([string:replace(Word, ":", "\\:", all), [[$:, Means] || Means =/= ""]]).

%% Lists the words for each position, and tells whether commas separate several of them. The pattern
%% is `NUMBER:COMMAND:WORD BEFORE:WORD', and the first match applies.
places() ->
    Table = whittle_command_line:table(),
    Commands = [{"help", "the commands and options"}, {"version", "the version of Whittle"}
                | [{Name, Help} || #{name := Name, help := Help} <- Table]],
    [{"1:*", Commands, false},
     {"2:help:*", Commands, false}]
        ++ [{["*:", Name, $:, Given, ":*"], values(Option), is_map_key(list, Option)}
            || #{name := Name, options := Options} <- Table,
               #{value := _} = Option <- Options, {Given, _} <- given(Option)]
        ++ [{["*:", Name, ":*:-*"], lists:append([given(One) || One <- Options]), false}
            || #{name := Name, options := [_ | _] = Options} <- Table]
        ++ [{["2:", Name, ":*"], [{Word, ""} || Word <- Words], false}
            || #{name := Name, words := Words} <- Table].

given(#{long := Long, help := Help} = Option) ->
    [{"--" ++ Long, Help} | [{[$-, Short], Help} || #{short := Short} <- [Option]]].

values(#{offered := Offered}) -> [{Value, ""} || Value <- Offered()];
values(Option) -> [{Value, ""} || Value <- whittle_command_line:choices(Option)].
