%% @doc `whittle completion bash': a script that lets bash complete the command's
%% words, made from the same table as the command itself.
-module(whittle_cmd_completion).
-behaviour(whittle).

-export([run/1]).

%% @doc The script, for `source <(whittle completion bash)'.
-spec run(whittle_words:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := ["bash"]}) ->
    Table = whittle_words:table(),
    Names = [Name || #{name := Name} <- Table],
    Text = ["_whittle() {\n"
            "    local here=${COMP_WORDS[COMP_CWORD]} before=${COMP_WORDS[COMP_CWORD-1]} words=\n"
            "    case \"$COMP_CWORD:${COMP_WORDS[1]}:$before:$here\" in\n",
            line("1:*", ["help", "version" | Names]),
            line("2:help:*", Names),
            [line(["*:", Name, $:, Given, ":*"], values(Option))
             || #{name := Name, options := Options} <- Table,
                #{value := _} = Option <- Options, Given <- given(Option)],
            [line(["*:", Name, ":*:-*"], lists:append([given(One) || One <- Options]))
             || #{name := Name, options := [_ | _] = Options} <- Table],
            "    esac\n"
            "    COMPREPLY=($(compgen -W \"$words\" -- \"$here\"))\n"
            "}\n"
            %% Where no word fits, names of files.
            "complete -o default -F _whittle whittle\n"],
    {ok, #{text => Text, json => unicode:characters_to_binary(Text)}};
run(#{arguments := [Shell]}) ->
    {error, {words, ["there is no completion for ", Shell, "; take bash"]}}.

given(#{long := Long} = Option) ->
    ["--" ++ Long | [[$-, Short] || #{short := Short} <- [Option]]].

values(#{one_of := Values}) -> Values();
values(_) -> [].

line(Pattern, Words) ->
    ["        ", Pattern, ") words=\"", lists:join($\s, Words), "\" ;;\n"].
