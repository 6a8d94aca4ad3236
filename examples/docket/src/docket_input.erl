%% @doc Checks what comes from outside: addresses, JSON bodies, queries, names. All functions are
%% pure.
%%
%% An error is a sentence that names the field and says which values it takes.
%% @hidden
-module(docket_input).

-export([address/1, new/1, change/2, version/2, list/1, none/1, events/1, before/2, document/2,
         area/1, number/1, user/1, form/1, parties/1, rows/1, most_parties/0]).

-type error() :: {error, Why :: iodata()}.
-type query() :: [{binary(), binary()}].

-define(BODY, 65536).                   % bytes of a JSON body
-define(PARTIES, 20).                   % of a case
-define(DIGITS, 15).                    % of a whole number: all are exact in JavaScript

%% @doc Reads the parts of an address's path, and its query. Each name of the query is there once.
-spec address(binary()) -> {ok, Path :: [binary()], query()} | error.
address(Uri) ->
    {Path, Query} = case binary:split(Uri, <<"?">>) of
                        [One, Two] -> {One, Two};
                        [One] -> {One, <<>>}
                    end,
    %% It is split before the parts are decoded, so that a %2F stays within its part.
    Parts = [decoded(Part) || Part <- binary:split(Path, <<"/">>, [global, trim_all])],
    case {lists:all(fun is_text/1, Parts), dissected(Query)} of
        {true, {ok, Pairs}} ->
            Named = [{Name, case Value of true -> <<>>; _ -> Value end} || {Name, Value} <- Pairs],
            case is_unique([Name || {Name, _} <- Named])
                andalso lists:all(fun({Name, Value}) -> is_text(Name) andalso is_text(Value) end,
                                  Named) of
                true -> {ok, Parts, Named};
                false -> error
            end;
        _ -> error
    end.

decoded(Part) ->
    try uri_string:percent_decode(Part)
    catch throw:{error, _, _} -> error
    end.

%% uri_string (OTP 29) ends with an error if a `&#' has no end, or names no character.
dissected(Query) ->
    try uri_string:dissect_query(Query) of
        Pairs when is_list(Pairs) -> {ok, Pairs};
        {error, _, _} -> error
    catch error:_ -> error
    end.

is_unique(Names) -> length(lists:usort(Names)) =:= length(Names).

is_text(Part) -> is_binary(Part) andalso is_list(unicode:characters_to_list(Part)).

%% @doc Reads the JSON of a new case: `title' and, if there are any, `parties'.
-spec new(binary()) -> {ok, docket_case:fields()} | error().
new(Body) ->
    all([fun(_) -> object(Body) end,
         fun(Object) -> known(Object, [<<"title">>, <<"parties">>]) end,
         fun(Object) -> required(Object, [<<"title">>]) end,
         fun(Object) -> fields(Object) end,
         fun(Fields) -> {ok, maps:merge(#{parties => []}, Fields)} end]).

%% @doc Reads the JSON of a change: some of `title', `parties' and `state', and the `version' that
%% the change is for, which the header If-Match may also give.
-spec change(binary(), none | string()) ->
          {ok, {docket_case:version(), docket_case:fields()}} | error().
change(Body, IfMatch) ->
    all([fun(_) -> object(Body) end,
         fun(Object) ->
                 known(Object, [<<"title">>, <<"parties">>, <<"state">>, <<"version">>])
         end,
         fun(Object) -> version_of(Object, IfMatch) end]).

version_of(Object, IfMatch) ->
    Given = case maps:take(<<"version">>, Object) of
                {Version, Rest} when is_integer(Version) -> {integer_to_binary(Version), Rest};
                {_, Rest} -> {<<"a term">>, Rest};
                error -> {none, Object}
            end,
    {Number, Fields} = Given,
    case {version([{<<"version">>, Number} || Number =/= none], IfMatch), map_size(Fields)} of
        {{error, _} = Error, _} -> Error;
        {{ok, _}, 0} -> {error, "give title, parties or state"};
        {{ok, Version1}, _} ->
            case fields(Fields) of
                {ok, Checked} -> {ok, {Version1, Checked}};
                {error, _} = Error -> Error
            end
    end.

%% @doc Reads the version that a change is for, from a query or from the header If-Match.
-spec version(query(), none | string()) -> {ok, docket_case:version()} | error().
version([], none) ->
    {error,
     "give the version of the case that you have seen, as version or in the header If-Match"};
version([], Header) ->
    case number(list_to_binary(string:trim(Header, both, "\""))) of
        {ok, _} = Ok -> Ok;
        {error, _} -> {error, "If-Match takes the ETag of a case, for example \"3\""}
    end;
version([{<<"version">>, Text}], none) ->
    case number(Text) of
        {ok, _} = Ok -> Ok;
        {error, Why} -> {error, ["version is ", Why]}
    end;
version([{<<"version">>, _}], _) -> {error, "give version or the header If-Match, not both"};
%% Each name is there once, so one of them is unknown.
version(Query, _) -> unknown(strange(Query, [<<"version">>]), [<<"version">>]).

%% @doc Reads the query of a list: `limit' (1 to 100, default 20), `before' (an id), `state' and
%% `search'.
-spec list(query()) -> {ok, #{before := docket_id:id() | last, most := pos_integer(),
                              filter := docket_case:filter()}} | error().
list(Query) ->
    all([fun(_) -> known_names(Query, [<<"limit">>, <<"before">>, <<"state">>, <<"search">>]) end,
         fun(_) -> each(fun listed/2, Query,
                        #{before => last, most => 20, filter => #{}})
         end]).

listed({<<"limit">>, Text}, List) -> most(Text, List);
listed({<<"before">>, Text}, List) ->
    case docket_id:from_text(Text) of
        {ok, Id} -> {ok, List#{before := Id}};
        error -> {error, "before takes the id of a case"}
    end;
listed({<<"state">>, <<>>}, List) -> {ok, List};
listed({<<"state">>, Text}, #{filter := Filter} = List) ->
    case state(Text) of
        {ok, State} -> {ok, List#{filter := Filter#{state => State}}};
        {error, _} = Error -> Error
    end;
listed({<<"search">>, Text}, #{filter := Filter} = List) ->
    case string:trim(Text) of
        <<>> -> {ok, List};
        Trimmed -> {ok, List#{filter := Filter#{text => Trimmed}}}
    end.

most(Text, List) ->
    case number(Text) of
        {ok, Most} when Most =< 100 -> {ok, List#{most := Most}};
        _ -> {error, "limit takes a whole number from 1 to 100"}
    end.

%% @doc Checks that a query has no names, for an address that takes none.
-spec none(query()) -> {ok, none} | error().
none([]) -> {ok, none};
none([{Name, _} | _]) -> {error, ["unknown name \"", Name, "\": this address takes no query"]}.

%% @doc Reads the query of an audit trail: `limit' (1 to 100, default 100) and `after' (a version,
%% or 0).
-spec events(query()) -> {ok, #{'after' := non_neg_integer(), most := pos_integer()}} | error().
events(Query) ->
    all([fun(_) -> known_names(Query, [<<"limit">>, <<"after">>]) end,
         fun(_) -> each(fun event/2, Query, #{'after' => 0, most => 100}) end]).

event({<<"limit">>, Text}, List) -> most(Text, List);
event({<<"after">>, <<"0">>}, List) -> {ok, List#{'after' := 0}};
event({<<"after">>, Text}, List) ->
    case number(Text) of
        {ok, Version} -> {ok, List#{'after' := Version}};
        {error, Why} -> {error, ["after is 0, or ", Why]}
    end.

%% @doc Reads the query of a case's page: `before', the version before which its history ends. By
%% default the history has all versions up to the last one.
-spec before(query(), docket_case:version()) -> {ok, pos_integer()} | error().
before([], Version) -> {ok, Version + 1};
before(Query, Version) ->
    case known_names(Query, [<<"before">>]) of
        {ok, [{_, Text}]} ->
            case number(Text) of
                {ok, Before} -> {ok, min(Before, Version + 1)};
                {error, Why} -> {error, ["before is ", Why]}
            end;
        {error, _} = Error -> Error
    end.

%% @doc Reads the name and the type of a document.
-spec document(query(), ContentType :: string()) -> {ok, {binary(), binary()}} | error().
document([{<<"name">>, Name}], Type) ->
    case {line(<<"name">>, Name, 100),
          re:run(Type, "^[a-z0-9.+-]{1,60}/[a-z0-9.+-]{1,60}(;[ -~]{0,60})?$",
                 [caseless, dollar_endonly])} of
        {{ok, Line}, {match, _}} -> {ok, {Line, list_to_binary(Type)}};
        {{ok, Line}, nomatch} when Type =:= "" -> {ok, {Line, <<"application/octet-stream">>}};
        {{ok, _}, nomatch} -> {error, "Content-Type takes a type such as text/plain"};
        {{error, _} = Error, _} -> Error
    end;
document([], _) -> {error, "give the document's name in the query: ?name=letter.txt"};
%% Each name is there once, so one of them is unknown.
document(Query, _) -> unknown(strange(Query, [<<"name">>]), [<<"name">>]).

%% @doc Reads the query of a picture. docket_picture:area() has the defaults and limits.
-spec area(query()) -> {ok, docket_picture:area()} | error().
area(Query) ->
    all([fun(_) -> known_names(Query, docket_picture:names()) end,
         fun(_) -> each(fun({Name, Text}, Values) ->
                                case decimal(Text) of
                                    {ok, Number} -> {ok, Values#{Name => Number}};
                                    error -> {error, [Name, " takes a number"]}
                                end
                        end, Query, #{})
         end,
         fun docket_picture:area/1]).

decimal(Text) when byte_size(Text) > 25 -> error;
decimal(Text) ->
    try {ok, binary_to_integer(Text)}
    catch error:badarg ->
            try {ok, binary_to_float(Text)}
            catch error:badarg -> error
            end
    end.

%% @doc Reads a whole number above 0.
-spec number(binary()) -> {ok, pos_integer()} | error().
number(Text) when byte_size(Text) =< ?DIGITS ->
    try binary_to_integer(Text) of
        Number when Number > 0 -> {ok, Number};
        _ -> bad_number()
    catch error:badarg -> bad_number()
    end;
number(_) -> bad_number().

bad_number() ->
    {error, ["a whole number above 0 of at most ", integer_to_list(?DIGITS), " digits"]}.

%% @doc Checks the name of a user.
-spec user(binary()) -> {ok, docket_case:owner()} | error().
user(Name) -> line(<<"the user's name">>, Name, 64).

%% @doc Reads the body of a form: names and values, each name once.
-spec form(binary()) -> {ok, #{binary() => binary()}} | error().
form(Body) when byte_size(Body) > ?BODY -> too_large();
form(Body) ->
    case dissected(Body) of
        {ok, Pairs} ->
            Form = maps:from_list([{Name, Value} || {Name, Value} <- Pairs, is_binary(Value)]),
            case map_size(Form) =:= length(Pairs) of
                true -> {ok, Form};
                false -> {error, "the form has a name twice, or a name without a value"}
            end;
        error -> {error, "the body is not a form in UTF-8"}
    end.

%% @doc Reads parties from the fields `name1', `role1' and so on of a page's form, without empty
%% rows. The result may come before fields that new/1 and change/2 check.
-spec parties(#{binary() => binary()}) -> [map()].
parties(Form) ->
    [#{<<"name">> => Name, <<"role">> => Role}
     || {Name, Role} <- rows(Form), string:trim([Name, Role]) =/= ""].

%% @doc Returns how many parties a case may have.
-spec most_parties() -> pos_integer().
most_parties() -> ?PARTIES.

%% @doc Returns all rows of parties that a page's form has, also empty ones.
-spec rows(#{binary() => binary()}) -> [{Name :: binary(), Role :: binary()}].
rows(Form) ->
    [{maps:get(Name, Form, <<>>), maps:get(Role, Form, <<>>)}
     || Row <- lists:seq(1, ?PARTIES),
        {Name, Role} <- [{row(<<"name">>, Row), row(<<"role">>, Row)}],
        is_map_key(Name, Form) orelse is_map_key(Role, Form)].

row(Field, Row) -> <<Field/binary, (integer_to_binary(Row))/binary>>.

fields(Object) -> each(fun field/2, maps:to_list(Object), #{}).

field({<<"title">>, Title}, Fields) ->
    case line(<<"title">>, Title, 200) of
        {ok, Line} -> {ok, Fields#{title => Line}};
        {error, _} = Error -> Error
    end;
field({<<"state">>, State}, Fields) ->
    case state(State) of
        {ok, Checked} -> {ok, Fields#{state => Checked}};
        {error, _} = Error -> Error
    end;
field({<<"parties">>, Parties}, Fields) when is_list(Parties), length(Parties) =< ?PARTIES ->
    case each(fun party/2, Parties, []) of
        {ok, Checked} -> {ok, Fields#{parties => lists:reverse(Checked)}};
        {error, _} = Error -> Error
    end;
field({<<"parties">>, _}, _) ->
    {error, ["parties takes a list of at most ", integer_to_list(?PARTIES), " objects"]}.

party(#{<<"name">> := Name, <<"role">> := Role} = Party, Parties) when map_size(Party) =:= 2 ->
    case {line(<<"the name of a party">>, Name, 100), line(<<"the role of a party">>, Role, 50)} of
        {{ok, Name1}, {ok, Role1}} -> {ok, [{Name1, Role1} | Parties]};
        {{error, _} = Error, _} -> Error;
        {_, {error, _} = Error} -> Error
    end;
party(_, _) -> {error, "a party is an object with name and role, and nothing else"}.

state(<<"open">>) -> {ok, open};
state(<<"closed">>) -> {ok, closed};
state(_) -> {error, "state takes open or closed"}.

%% A text of one line. Outer blanks do not count. Control characters could change the look of a page
%% or of a terminal.
line(What, Text, Most) when is_binary(Text) ->
    case unicode:characters_to_list(Text) of
        Chars when is_list(Chars) ->
            Trimmed = string:trim(Chars),
            case {length(Trimmed), lists:any(fun is_control/1, Trimmed)} of
                {0, _} -> bad_line(What, Most, "and this one is empty, or has only blanks");
                {Length, _} when Length > Most ->
                    bad_line(What, Most, ["and this one has ", integer_to_list(Length)]);
                {_, true} ->
                    bad_line(What, Most, "without control characters and marks that change the "
                                         "direction of a text or end a line");
                {_, false} -> {ok, unicode:characters_to_binary(Trimmed)}
            end;
        _ -> bad_line(What, Most, "in UTF-8")
    end;
line(What, _, Most) -> bad_line(What, Most, "and this is no text").

bad_line(What, Most, Why) ->
    {error, [What, " takes a text of 1 to ", integer_to_list(Most), " characters, ", Why]}.

%% Controls, and the marks that turn the direction of a text
is_control(Char) when Char < 32; Char >= 127, Char < 160 -> true;
is_control(Char) when Char >= 16#202A, Char =< 16#202E; Char >= 16#2066, Char =< 16#2069 -> true;
is_control(Char) -> Char =:= 16#2028 orelse Char =:= 16#2029.

object(Body) when byte_size(Body) > ?BODY -> too_large();
object(Body) ->
    try json:decode(Body, [], decoders()) of
        {Object, _, Rest} when is_map(Object) ->
            case lists:all(fun is_blank/1, binary_to_list(Rest)) of
                true -> {ok, Object};
                false -> bad_json()
            end;
        _ -> {error, "the body must be a JSON object"}
    catch
        throw:twice -> {error, "an object of the body has a name twice"};
        throw:digits -> {error, "a number of the body has too many digits"};
        error:_ -> bad_json()
    end.

%% The blanks of JSON. What follows an object may be anything, and string:trim/1 takes only text.
is_blank(Byte) -> lists:member(Byte, " \t\r\n").

bad_json() -> {error, "the body is not JSON in UTF-8"}.

too_large() -> {error, ["the body is larger than ", integer_to_list(?BODY), " bytes"]}.

%% Of two equal names, programs take either. The time to read a number grows with the square of its
%% digits. So neither is accepted.
decoders() ->
    #{object_start => fun(_) -> #{} end,
      object_push => fun(Name, _, Object) when is_map_key(Name, Object) -> throw(twice);
                        (Name, Value, Object) -> Object#{Name => Value}
                     end,
      object_finish => fun(Object, Outer) -> {Object, Outer} end,
      integer => fun(Text) when byte_size(Text) =< ?DIGITS -> binary_to_integer(Text);
                    (_) -> throw(digits)
                 end,
      %% No field takes a fraction, so nobody needs its digits.
      float => fun(_) -> 0.0 end}.

known(Object, Names) ->
    case maps:keys(maps:without(Names, Object)) of
        [] -> {ok, Object};
        Unknown -> unknown(Unknown, Names)
    end.

known_names(Query, Names) ->
    case strange(Query, Names) of
        [] -> {ok, Query};
        Unknown -> unknown(Unknown, Names)
    end.

strange(Query, Names) -> [Name || {Name, _} <- Query, not lists:member(Name, Names)].

unknown([Name | _], Names) ->
    {error, ["unknown name \"", Name, "\": give ", lists:join(", ", Names)]}.

required(Object, Names) ->
    case [Name || Name <- Names, not is_map_key(Name, Object)] of
        [] -> {ok, Object};
        [Name | _] -> {error, ["give ", Name]}
    end.

%% Calls functions one after the other, each with the result of the one before.
all(Funs) -> each(fun(Fun, Value) -> Fun(Value) end, Funs, none).

each(_, [], Result) -> {ok, Result};
each(Fun, [One | More], Result) ->
    case Fun(One, Result) of
        {ok, Next} -> each(Fun, More, Next);
        {error, _} = Error -> Error
    end.
