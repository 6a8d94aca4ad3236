%% @hidden Checks the values of the variable WHITTLE_NETWORK, which native/init/network.h reads.
-module(whittle_board_network).

-export([is_valid/1]).

%% @doc Tells whether a text is `dhcp' or `ADDRESS/BITS[,GATEWAY[,NAME SERVER]]'.
-spec is_valid(string()) -> boolean().
is_valid("dhcp") -> true;
is_valid(Text) ->
    [Own | Others] = string:split(Text, ",", all),
    length(Others) =< 2 andalso lists:all(fun is_address/1, Others)
        andalso case string:split(Own, "/") of
                    [Address, Bits] -> is_own(Address) andalso is_bits(Bits);
                    [_] -> false
                end.

is_address(Text) -> address(Text) =/= error.

%% A board has no address of all machines, of a loopback, or of a group (RFC 1122, section 3.2.1.3).
is_own(Text) ->
    case address(Text) of
        {First, _, _, _} -> First > 0 andalso First < 224 andalso First =/= 127;
        error -> false
    end.

address(Text) ->
    case re:run(Text, "^[0-9.]+$", [unicode, dollar_endonly, {capture, none}]) of
        match ->
            case inet:parse_ipv4strict_address(Text) of
                {ok, Address} -> Address;
                {error, einval} -> error
            end;
        nomatch -> error
    end.

is_bits(Text) ->
    re:run(Text, "^([1-9]|[12][0-9]|3[0-2])$", [unicode, dollar_endonly, {capture, none}])
        =:= match.
