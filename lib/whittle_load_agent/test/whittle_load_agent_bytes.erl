%% Gives bytes to the clients of protocols in tests.
-module(whittle_load_agent_bytes).

-export([pieces/2, survives/3]).

%% Cuts bytes into pieces of at most these sizes. The last piece has the rest.
-spec pieces(binary(), [pos_integer()]) -> [binary()].
pieces(<<>>, _) -> [];
pieces(Bytes, []) -> [Bytes];
pieces(Bytes, [Most | Sizes]) ->
    Size = min(Most, byte_size(Bytes)),
    <<Piece:Size/binary, Rest/binary>> = Bytes,
    [Piece | pieces(Rest, Sizes)].

%% Tells whether a client answers all pieces in an allowed form, up to the first error.
-spec survives(module(), [binary()], term()) -> boolean().
survives(_, [], _) -> true;
survives(Module, [Bytes | Pieces], State) ->
    case Module:data(Bytes, State) of
        {ok, Events, Out, Next} ->
            is_list(Events) andalso is_integer(iolist_size(Out))
                andalso survives(Module, Pieces, Next);
        {error, Kind} -> is_kind(Kind);
        {error, Kind, Out} -> is_kind(Kind) andalso is_integer(iolist_size(Out))
    end.

is_kind(Kind) -> is_atom(Kind) orelse is_binary(Kind).
