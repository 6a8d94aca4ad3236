%% @doc Writes accounts of connections as tables and as data. This module is pure.
%% @hidden
-module(whittle_load_account_text).

-export([choices/1, name/1, tables/1, json/1, format_error/1]).

-export_type([error/0]).

-type error() :: {choice, string()}
               | {factor, string()}
               | {value, {Factor :: string(), Value :: string()}}
               | impossible.

-type cost() :: whittle_measure_statistics:slope().

%% A smaller part gets no column.
-define(LEAST, 8).

%% @doc Reads choices such as `transport=inet', and returns the kinds to measure.
-spec choices([string()]) -> {ok, [whittle_load_account:kind(), ...]} | {error, error()}.
choices(Texts) ->
    Choices = [choice(Text) || Text <- Texts],
    case [Reason || {error, Reason} <- Choices] of
        [] ->
            case whittle_load_account:kinds([Choice || {ok, Choice} <- Choices]) of
                [] -> {error, impossible};
                Kinds -> {ok, Kinds}
            end;
        [Reason | _] -> {error, Reason}
    end.

choice(Text) ->
    Factors = whittle_load_account:factors(),
    case string:split(Text, "=") of
        [Name, Value] ->
            case [Found || {Factor, _} = Found <- Factors, atom_to_list(Factor) =:= Name] of
                [{Factor, Values}] ->
                    case lists:keyfind(Value, 1, Values) of
                        {_, Meant} -> {ok, {Factor, Meant}};
                        false -> {error, {value, {Name, Value}}}
                    end;
                [] -> {error, {factor, Name}}
            end;
        [_] -> {error, {choice, Text}}
    end.

%% @doc Names a kind: the values of the factors.
-spec name(whittle_load_account:kind()) -> unicode:chardata().
name(#{transport := Transport, security := Security, active := Active, buffer := Buffer,
       hibernate := Hibernate, traffic := Traffic}) ->
    lists:join($\s,
               [atom_to_list(Transport)] ++ ["TLS" || Security =:= tls]
               ++ [value(Active) || Transport =/= socket]
               ++ [value(Buffer) || Transport =/= socket]
               ++ ["hibernates" || Hibernate] ++ ["talks" || Traffic =:= talking]).

value(Value) when is_integer(Value) -> integer_to_list(Value);
value(Value) -> atom_to_list(Value).

%% @doc Writes the tables: the sums, the parts of each end, and those of the kernel.
-spec tables([whittle_load_account:account()]) -> [[[unicode:chardata() | integer()]]].
tables([{_, _, #{measured := First}} | _] = Accounts) ->
    [[["bytes per connection" | [Name || {Name, _} <- First]] ++ ["sum", "parts", "unexplained"]
      | [sums(Account) || Account <- Accounts]]]
        ++ [parts(Title, Key, Accounts)
            || {Title, Key} <- [{"server's VM", server}, {"client's VM", client},
                                {"kernel, both ends", kernel}]].

sums({Kind, _, #{server := Server, client := Client, kernel := Kernel, measured := Measured,
                 total := Total, unexplained := Unexplained}}) ->
    [name(Kind) | [figure(Cost) || {_, Cost} <- Measured]]
        ++ [figure(Total), round(sum(Server) + sum(Client) + sum(Kernel)),
            percent(Unexplained, Total)].

sum(Parts) -> lists:sum([Slope || {_, #{slope := Slope}} <- Parts]).

percent(#{slope := Part}, #{slope := Whole}) ->
    io_lib:format("~.1f %", [100 * Part / max(1, Whole)]).

%% The interval is symmetric.
-spec figure(cost()) -> unicode:chardata().
figure(#{slope := Slope, interval := {_, High}}) ->
    [whittle_load_unit:format_count(round(Slope)), " ±",
     whittle_load_unit:format_count(round(High - Slope))].

parts(Title, Key, Accounts) ->
    All = [{name(Kind), maps:get(Key, Costs)} || {Kind, _, Costs} <- Accounts],
    {_, First} = hd(All),
    Names = [Name || {Name, _} <- First,
                     lists:any(fun({_, Parts}) ->
                                       {_, #{slope := Slope}} = lists:keyfind(Name, 1, Parts),
                                       abs(Slope) >= ?LEAST
                               end, All)],
    [[Title | Names]
     | [[Kind | [figure(element(2, lists:keyfind(Name, 1, Parts))) || Name <- Names]]
        || {Kind, Parts} <- All]].

%% @doc Writes accounts as data. All costs are bytes per connection.
-spec json([whittle_load_account:account()]) -> whittle_json:json().
json(Accounts) ->
    [maps:merge(maps:map(fun(_, Value) -> Value end, Kind),
                #{connections => Connections, server => named(Server), client => named(Client),
                  kernel => named(Kernel), measured => named(Measured), sum => cost(Total),
                  unexplained => cost(Unexplained)})
     || {Kind, Connections, #{server := Server, client := Client, kernel := Kernel,
                              measured := Measured, total := Total,
                              unexplained := Unexplained}} <- Accounts].

named(Parts) -> maps:from_list([{list_to_binary(Name), cost(Cost)} || {Name, Cost} <- Parts]).

cost(#{slope := Slope, interval := {Low, High}}) ->
    #{bytes => Slope, low => Low, high => High}.

%% @doc Formats an error as one line for a person.
-spec format_error(error()) -> unicode:chardata().
format_error({choice, Text}) ->
    ["--only cannot be `", Text, "': give FACTOR=VALUE, such as transport=inet"];
format_error({factor, Name}) ->
    Names = [atom_to_list(Factor) || {Factor, _} <- whittle_load_account:factors()],
    ["there is no factor `", Name, "'", whittle_suggestion:hint(Name, Names), "; take one of ",
     lists:join(", ", Names)];
format_error({value, {Name, Value}}) ->
    [Values] = [[Text || {Text, _} <- Values]
                || {Factor, Values} <- whittle_load_account:factors(),
                   atom_to_list(Factor) =:= Name],
    ["`", Name, "' cannot be `", Value, "': take one of ", lists:join(", ", Values)];
format_error(impossible) ->
    "TLS is measured with transport=inet only: leave out security=tls, or the transport".
