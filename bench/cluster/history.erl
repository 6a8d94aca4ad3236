%% @doc Writes and reads the history of a run: which client asked what, when, and what it heard.
%%
%% A history is a text file with one Erlang term in each line, so that a run that ends at once
%% leaves a history that can be read, and file:consult/1 reads it:
%%
%%     {call, Number, Microseconds, Client, Node, Key, Input}.
%%     {return, Number, Microseconds, Key, Result}.
%%     {note, Microseconds, Text}.
%%
%% The times come from one clock that never goes back. A create has no key before it returns, so the
%% line `return' has the key that counts. A call without a return has an unknown result.
-module(history).

-export([call/6, return/4, note/2, read/1, operations/1, by_key/1]).

-export_type([operation/0, input/0, result/0, state/0, key/0, time/0]).

-type key() :: binary() | none.
-type time() :: integer().                        % microseconds
-type version() :: pos_integer().
-type title() :: binary().

%% A case as clients see it.
-type state() :: {version(), title()} | absent.

%% `final' is a read after all faults have ended. It must not be old.
-type input() :: {create, title()} | {change, From :: version(), title()}
               | {remove, From :: version()} | read | final.

%% `ok' has the state after a write, or the state that a read has seen. `refused' has the state that
%% did not allow the write. A failed operation has certainly done nothing. An unknown one may take
%% effect at any moment after its call, or never.
-type result() :: {ok, state()} | {refused, state()} | {failed, Why :: term()}
                | {unknown, Why :: term()}.

-type operation() :: #{number := pos_integer(),
                       client := term(),
                       node := pos_integer(),     % the node that was asked
                       key := key(),
                       input := input(),
                       call := time(),
                       return := time() | infinity,
                       result := result()}.

%% @doc Formats the line that a client writes before it asks.
-spec call(pos_integer(), time(), term(), pos_integer(), key(), input()) -> iodata().
call(Number, Time, Client, Node, Key, Input) ->
    line({call, Number, Time, Client, Node, Key, Input}).

%% @doc Formats the line that a client writes when it knows the result.
-spec return(pos_integer(), time(), key(), result()) -> iodata().
return(Number, Time, Key, Result) -> line({return, Number, Time, Key, Result}).

%% @doc Formats a line about the run itself, such as a fault.
-spec note(time(), iodata()) -> iodata().
note(Time, Text) -> line({note, Time, lists:flatten(io_lib:format("~ts", [Text]))}).

line(Term) -> io_lib:format("~0p.~n", [Term]).

%% @doc Reads the operations of a file.
-spec read(file:filename()) -> {ok, [operation()]} | {error, term()}.
read(File) ->
    case file:consult(File) of
        {ok, Terms} -> {ok, operations(Terms)};
        {error, _} = Error -> Error
    end.

%% @doc Joins calls and returns, in the order of the calls.
-spec operations([tuple()]) -> [operation()].
operations(Terms) ->
    Returns = maps:from_list([{Number, {Time, Key, Result}}
                              || {return, Number, Time, Key, Result} <- Terms]),
    lists:sort(fun(#{call := One}, #{call := Other}) -> One =< Other end,
               [operation(Call, Returns) || Call <- Terms, element(1, Call) =:= call]).

operation({call, Number, Time, Client, Node, Asked, Input}, Returns) ->
    {Return, Key, Result} = maps:get(Number, Returns, {infinity, Asked, {unknown, no_return}}),
    #{number => Number, client => Client, node => Node, key => Key, input => Input, call => Time,
      return => case Result of {unknown, _} -> infinity; _ -> Return end, result => Result}.

%% @doc Groups operations by their keys. Those without one are creates that were not acknowledged.
-spec by_key([operation()]) -> #{key() => [operation(), ...]}.
by_key(Operations) ->
    lists:foldr(fun(#{key := Key} = Operation, Groups) ->
                        maps:update_with(Key, fun(Others) -> [Operation | Others] end,
                                         [Operation], Groups)
                end, #{}, Operations).
