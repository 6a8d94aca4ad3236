%% @doc Arguments of the VM as text: `vm.args', and the second line of an
%% escript.
-module(whittle_vm_args).

-export([without_cookie/1]).

%% @doc The text without `-setcookie' and what follows it, and whether there was
%% one. Comments and the other arguments stay as they are.
%%
%% A cookie opens the node to whoever knows it; it must not be readable in a
%% file that is copied around.
-spec without_cookie(binary()) -> {binary(), boolean()}.
without_cookie(Text) ->
    {Lines, {_, HadOne}} =
        lists:mapfoldl(fun line/2, {keep, false}, binary:split(Text, <<"\n">>, [global])),
    {iolist_to_binary(lists:join($\n, Lines)), HadOne}.

%% The state goes from line to line, since a flag's values may stand on the
%% lines below it.
line(Line, State) ->
    {Code, Comment} = case re:run(Line, "^((?:[^#\"']|\"[^\"]*\"|'[^']*')*)(#.*)?$",
                                  [{capture, all_but_first, binary}, dotall]) of
                          {match, [Before]} -> {Before, <<>>};
                          {match, [Before, After]} -> {Before, After};
                          nomatch -> {Line, <<>>}
                      end,
    Words = case re:run(Code, "\\s+|(?:\"[^\"]*\"|'[^']*'|\\S)+",
                        [global, {capture, first, binary}]) of
                {match, Found} -> Found;
                nomatch -> []
            end,
    {Kept, Next} = lists:foldl(fun([Word], {Out, Now}) -> word(Word, Out, Now) end,
                               {[], State}, Words),
    {[lists:reverse(Kept), Comment], Next}.

word(<<"-setcookie">>, Out, _) -> {Out, {drop, true}};
word(<<C, _/binary>> = Word, Out, {_, Found}) when C =:= $-; C =:= $+ ->
    {[Word | Out], {keep, Found}};
word(Word, Out, {keep, _} = State) -> {[Word | Out], State};
word(_, Out, {drop, _} = State) -> {Out, State}.
