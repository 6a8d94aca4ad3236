%% @doc Parses VM arguments in text form: `vm.args', and the second line of an escript.
-module(whittle_vm_args).

-export([words/1, add/2, without_cookie/1, cookie_note/1]).

%% @doc Splits a text into words like the launcher (`native/launcher/flags.c') and erlexec. White
%% space separates words. Between quotes no character is special. Elsewhere a backslash quotes the
%% next character, and `#' begins a comment.
-spec words(binary()) -> [binary()].
words(Text) ->
    [Word || {word, _, Word} <- tokens(Text)].

%% @doc Adds lines to a text: at its end, or before its `-extra', because all words behind that are
%% arguments of the program.
-spec add(iodata(), binary()) -> binary().
add(Lines, Text) ->
    {Flags, Extra} = lists:splitwith(fun({word, _, Word}) -> Word =/= <<"-extra">>;
                                        ({other, _}) -> true
                                     end, tokens(Text)),
    Raw = fun({word, Bytes, _}) -> Bytes; ({other, Bytes}) -> Bytes end,
    iolist_to_binary([lists:map(Raw, Flags), Lines, lists:map(Raw, Extra)]).

%% @doc Removes `-setcookie' and its value from a text, and tells whether there was one. It keeps
%% comments and the other arguments unchanged.
%%
%% A person who knows the cookie can enter the node. It must not be readable in a file that people
%% copy.
-spec without_cookie(binary()) -> {binary(), boolean()}.
without_cookie(Text) ->
    {Kept, {_, HadOne}} = lists:mapfoldl(fun token/2, {keep, false}, tokens(Text)),
    {iolist_to_binary(Kept), HadOne}.

%% @doc Writes the note about a removed cookie and the way to set one. Place is where it was.
-spec cookie_note(unicode:chardata()) -> unicode:chardata().
cookie_note(Place) ->
    ["Whittle removed the cookie in ", Place, ", because everybody can read the output. To "
     "connect, set RELEASE_COOKIE or WHITTLE_COOKIE_FILE for the node and for --whittle-ping"].

token({other, <<C, _/binary>>}, {drop, _} = State) when C =/= $#, C =/= $\n -> {<<>>, State};
token({other, Raw}, State) -> {Raw, State};
token({word, _, <<"-setcookie">>}, _) -> {<<>>, {drop, true}};
token({word, Raw, <<C, _/binary>>}, {_, Found}) when C =:= $-; C =:= $+ ->
    {Raw, {keep, Found}};
token({word, Raw, _}, {keep, _} = State) -> {Raw, State};
token({word, _, _}, {drop, _} = State) -> {<<>>, State}.

%% Splits a text into pieces that form the text again: each word as it stands with its meaning,
%% and the text between words.
tokens(<<>>) -> [];
tokens(<<$#, _/binary>> = Text) ->
    [Comment | _] = binary:split(Text, <<"\n">>),
    [{other, Comment} | tokens(behind(Comment, Text))];
tokens(<<C, Text/binary>>) when C =:= $\s; C >= $\t, C =< $\r ->
    [{other, <<C>>} | tokens(Text)];
tokens(Text) ->
    {Word, Rest} = word(Text, <<>>),
    [{word, binary:part(Text, 0, byte_size(Text) - byte_size(Rest)), Word} | tokens(Rest)].

word(<<C, _/binary>> = Text, Word)
  when C =:= $#; C =:= $\s; C >= $\t, C =< $\r ->
    {Word, Text};
word(<<Quote, Text/binary>>, Word) when Quote =:= $"; Quote =:= $' ->
    case binary:split(Text, <<Quote>>) of
        [Quoted, Rest] -> word(Rest, <<Word/binary, Quoted/binary>>);
        [Open] -> {<<Word/binary, Open/binary>>, <<>>}
    end;
word(<<$\\, C, Text/binary>>, Word) -> word(Text, <<Word/binary, C>>);
word(<<C, Text/binary>>, Word) -> word(Text, <<Word/binary, C>>);
word(<<>>, Word) -> {Word, <<>>}.

behind(Start, Text) -> binary:part(Text, byte_size(Start), byte_size(Text) - byte_size(Start)).
