%% @doc Parses VM arguments in text form: `vm.args', and the second line of an escript.
-module(whittle_vm_args).

-export([words/1, check/1, add/2, without_cookie/1, is_cookie/1, cookie_note/1]).

%% @doc Splits a text into words like the launcher (`native/launcher/flags.c') and erlexec. White
%% space separates words. Between quotes no character is special. Elsewhere a backslash quotes the
%% next character, and `#' begins a comment.
-spec words(binary()) -> [binary()].
words(Text) ->
    [Word || {word, _, Word} <- tokens(Text)].

%% @doc Checks that the launcher accepts a text: it has no zero byte, each quote has an end, and
%% `-env' and `-args_file' have their values. The error says what is wrong. The result of an
%% accepted text has a note if the first word belongs to no flag.
-spec check(binary()) -> {ok, [Note :: unicode:chardata()]} | {error, unicode:chardata()}.
check(Text) ->
    Tokens = tokens(Text),
    Line = fun(Before) -> integer_to_list(1 + length(binary:matches(Before, <<"\n">>))) end,
    Last = case lists:reverse(Tokens) of
               [{word, Raw, _} | _] -> Raw;
               _ -> <<>>
           end,
    case {binary:split(Text, <<0>>), is_open(Last), lacks([Word || {word, _, Word} <- Tokens])} of
        {[Before, _], _, _} -> {error, ["line ", Line(Before), " has a zero byte"]};
        {_, true, _} ->
            Before = binary:part(Text, 0, byte_size(Text) - byte_size(Last)),
            {error, ["the quote in line ", Line(Before), " has no end"]};
        {_, _, {true, Flag}} -> {error, ["the last flag, ", Flag, ", has no value"]};
        {_, _, false} ->
            {ok, [["the first word, ", Word, ", belongs to no flag, so the VM takes it for an "
                   "argument of the program"]
                  || [Word | _] <- [words(Text)], not is_flag(Word)]}
    end.

is_flag(<<C, _/binary>>) -> C =:= $- orelse C =:= $+;
is_flag(<<>>) -> false.

%% Tells whether a word ends within a quote.
is_open(<<$\\, _, Rest/binary>>) -> is_open(Rest);
is_open(<<Quote, Rest/binary>>) when Quote =:= $"; Quote =:= $' ->
    case binary:split(Rest, <<Quote>>) of
        [_, Behind] -> is_open(Behind);
        [_] -> true
    end;
is_open(<<_, Rest/binary>>) -> is_open(Rest);
is_open(<<>>) -> false.

%% Returns a flag without its values. Behind `-extra' there are no flags.
lacks([<<"-extra">> | _]) -> false;
lacks([<<"-env">>, _, _ | Rest]) -> lacks(Rest);
lacks([<<"-args_file">>, _ | Rest]) -> lacks(Rest);
lacks([Flag | _]) when Flag =:= <<"-env">>; Flag =:= <<"-args_file">> -> {true, Flag};
lacks([_ | Rest]) -> lacks(Rest);
lacks([]) -> false.

%% @doc Adds lines to a text: at its end, or before its `-extra', because all words behind that are
%% arguments of the program.
-spec add(iodata(), binary()) -> binary().
add(Lines, Text) ->
    {Flags, Extra} = lists:splitwith(fun({word, _, Word}) -> Word =/= <<"-extra">>;
                                        ({other, _}) -> true
                                     end, tokens(Text)),
    iolist_to_binary([lists:map(fun raw/1, Flags), Lines, lists:map(fun raw/1, Extra)]).

%% @doc Removes cookies from a text, and tells whether there was one: `-setcookie' with its values,
%% and `-env' with a variable of a cookie. A cookie on the line of its `-setcookie' may begin with
%% `-': the VM reads it as a flag, but it is still a secret. The function keeps comments and the
%% other arguments unchanged.
%%
%% A person who knows the cookie can enter the node. It must not be readable in a file that people
%% copy.
-spec without_cookie(binary()) -> {binary(), boolean()}.
without_cookie(Text) ->
    Tokens = tokens(Text),
    Kept = kept(Tokens),
    {iolist_to_binary([raw(Token) || Token <- Kept]), Kept =/= Tokens}.

%% @doc Tells whether an environment variable contains a cookie.
-spec is_cookie(binary()) -> boolean().
is_cookie(Variable) -> lists:member(Variable, [<<"RELEASE_COOKIE">>, <<"ERLANG_COOKIE">>]).

%% @doc Writes the note about a removed cookie and the way to set one. Place is where it was.
-spec cookie_note(unicode:chardata()) -> unicode:chardata().
cookie_note(Place) ->
    ["Whittle removed the cookie in ", Place, ", because everybody can read the output. To "
     "connect, set RELEASE_COOKIE or WHITTLE_COOKIE_FILE for the node and for --whittle-ping"].

kept([{word, _, <<"-setcookie">>} | Rest]) -> kept(behind_cookie(same_line, Rest));
kept([{word, _, <<"-env">>} = Env | Rest]) -> kept_env(Env, Rest);
kept([Token | Rest]) -> [Token | kept(Rest)];
kept([]) -> [].

%% Removes the values of `-setcookie'. It keeps line ends and comments.
behind_cookie(_, [{other, <<"\n">>} = End | Rest]) -> [End | behind_cookie(values, Rest)];
behind_cookie(Where, [{other, <<"#", _/binary>>} = Comment | Rest]) ->
    [Comment | behind_cookie(Where, Rest)];
behind_cookie(Where, [{other, _} | Rest]) -> behind_cookie(Where, Rest);
behind_cookie(values, [{word, _, <<C, _/binary>>} | _] = Rest) when C =:= $-; C =:= $+ -> Rest;
behind_cookie(_, [{word, _, _} | Rest]) -> behind_cookie(values, Rest);
behind_cookie(_, []) -> [].

%% Two words follow `-env', also if they begin with `-': a variable and its value. The value of
%% ERL_FLAGS and of similar variables is again a text of flags.
kept_env(Env, Rest) ->
    {ToName, Rest1} = to_word(Rest),
    {ToValue, More} = to_word(Rest1),
    case {meaning(ToName), meaning(ToValue)} of
        {<<"ERL_", _/binary>>, Value} ->
            {Now, HadOne} = without_cookie(Value),
            New = case HadOne of
                      true -> lists:droplast(ToValue) ++ [quoted(Now)];
                      false -> ToValue
                  end,
            [Env | ToName] ++ New ++ kept(More);
        {Name, _} ->
            case is_cookie(Name) of
                true -> kept(More);
                false -> [Env | ToName] ++ ToValue ++ kept(More)
            end
    end.

%% Splits tokens behind the first word.
to_word(Tokens) ->
    case lists:splitwith(fun(Token) -> element(1, Token) =:= other end, Tokens) of
        {Before, [Word | Rest]} -> {Before ++ [Word], Rest};
        {Before, []} -> {Before, []}
    end.

%% Returns the word at the end of tokens.
meaning(Tokens) -> iolist_to_binary([Word || {word, _, Word} <- Tokens]).

%% Writes a word between double quotes, and each double quote in it between single ones.
quoted(Word) ->
    Inside = binary:replace(Word, <<"\"">>, <<"\"'\"'\"">>, [global]),
    {word, <<$", Inside/binary, $">>, Word}.

raw({word, Raw, _}) -> Raw;
raw({other, Raw}) -> Raw.

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
