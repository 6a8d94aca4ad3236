%% @doc Parses VM arguments in text form: `vm.args', and the second line of an escript.
-module(whittle_vm_args).

-export([words/1, check/1, add/2, without_cookie/1, is_cookie/1, cookie_note/1]).

%% The most characters of a word in a message.
-define(SHOWN, 60).

%% @doc Splits a text into words like the launcher (`native/launcher/flags.c') and erlexec. White
%% space separates words. Between quotes no character is special. Elsewhere a backslash quotes the
%% next character, and `#' begins a comment.
-spec words(binary()) -> [binary()].
words(Text) ->
    [Word || {word, _, Word} <- tokens(Text)].

%% @doc Checks a text that each start reads. The launcher refuses `-env', `-args_file', `-name' and
%% `-sname' without their values, and words that are not UTF-8. A zero byte hides the rest from it,
%% and a byte order mark hides the first word. The notes tell what it accepts and what is probably
%% a mistake: a quote without end, and a first word that is no flag. If a word has a variable
%% (`${NAME}'), the words are known only at a start, so their number does not count.
-spec check(binary()) -> {ok, Notes :: [unicode:chardata()]} | {error, unicode:chardata()}.
check(Text) ->
    Words = words(Text),
    HasVariables = lists:any(fun(Word) -> binary:match(Word, <<"${">>) =/= nomatch end, Words),
    Wrong = [["line ", line(Before), " has a zero byte"]
             || [Before, _] <- [binary:split(Text, <<0>>)]]
        ++ ["it begins with a byte order mark" || <<16#EF, 16#BB, 16#BF, _/binary>> <- [Text]]
        ++ [["the word ", shown(Word), " is not UTF-8"]
            || Word <- Words, not is_binary(unicode:characters_to_binary(Word))]
        ++ [["the values of its last flag, ", Flag, ", are missing"]
            || not HasVariables, {true, Flag} <- [short_of_values(Words)]],
    case Wrong of
        [] when HasVariables -> {ok, []};
        [] -> {ok, notes(Text, Words)};
        [Why | _] -> {error, Why}
    end.

notes(Text, Words) ->
    [["the first word, ", shown(Word), ", is no flag, so it has no effect: write -", shown(Word)]
     || [Word | _] <- [Words], Word =/= <<>>, not is_flag(Word)]
        ++ [["the quote in line ", line(Before), " has no end, so the rest of the file belongs to "
             "it"]
            || {true, Before} <- [open_quote(Text)]].

line(Before) -> integer_to_list(1 + length(binary:matches(Before, <<"\n">>))).

is_flag(<<C, _/binary>>) -> C =:= $- orelse C =:= $+.

%% Shows the beginning of a long word.
shown(Word) ->
    case whittle_term:text(Word) of
        Text when length(Text) =< ?SHOWN -> Text;
        Text -> [lists:sublist(Text, ?SHOWN), "..."]
    end.

%% Returns the text before a word that ends within a quote. A backslash at the end of the text would
%% take the first of the two newlines.
open_quote(Text) ->
    case lists:last(tokens(<<Text/binary, "\n\n">>)) of
        {word, Raw, _} -> {true, binary:part(Text, 0, byte_size(Text) + 2 - byte_size(Raw))};
        {other, _} -> false
    end.

%% Finds a flag that needs more words than follow it. Behind `-extra' there are no flags.
short_of_values([<<"-extra">> | _]) -> false;
short_of_values([<<"-env">>, _, _ | Words]) -> short_of_values(Words);
short_of_values([<<"-args_file">>, _ | Words]) -> short_of_values(Words);
short_of_values([Flag | _]) when Flag =:= <<"-env">>; Flag =:= <<"-args_file">> -> {true, Flag};
short_of_values([Flag]) when Flag =:= <<"-name">>; Flag =:= <<"-sname">> -> {true, Flag};
short_of_values([_ | Words]) -> short_of_values(Words);
short_of_values([]) -> false.

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
