%% @doc Fills the text of a step with the values of a user, and finds the moment of a message.
%% @hidden
-module(whittle_load_agent_text).

-export([fill/2, begins/2, lower/1, trimmed/1, delivered/2]).

%% The longest number of a moment in nanoseconds.
-define(DIGITS, 20).

%% @doc Returns the text for one user. `sent' becomes the intended moment of the step, in the form
%% that {@link delivered/2} finds.
-spec fill(whittle_load_agent:text(), whittle_load_agent_client:user()) -> iodata().
fill(Text, #{id := Id, row := Row, random := Random, clock := Clock} = User) ->
    [case Part of
         _ when is_binary(Part) -> Part;
         id -> integer_to_binary(Id);
         sent -> [<<"sent=">>, integer_to_binary(Clock), $;];
         {column, N} -> element(N, Row);
         {random, Below} -> integer_to_binary(Random rem Below);
         {taken, Name} -> map_get(Name, map_get(taken, User))
     end || Part <- Text].

%% @doc Tells whether a text begins with another.
-spec begins(binary(), binary()) -> boolean().
begins(Prefix, Text) -> binary:longest_common_prefix([Prefix, Text]) =:= byte_size(Prefix).

%% @doc Changes the capitals of ASCII. The bytes of a header need not be UTF-8.
-spec lower(binary()) -> binary().
lower(Text) -> << <<(if C >= $A, C =< $Z -> C + 32; true -> C end)>> || <<C>> <= Text >>.

%% @doc Removes blanks and tabs at both ends. The time is linear, also for a text of blanks. The
%% bytes need not be UTF-8.
-spec trimmed(binary()) -> binary().
trimmed(<<C, Rest/binary>>) when C =:= $\s; C =:= $\t -> trimmed(Rest);
trimmed(Text) -> first(byte_size(Text), Text).

first(Size, Text) ->
    case Size > 0 andalso binary:at(Text, Size - 1) of
        C when C =:= $\s; C =:= $\t -> first(Size - 1, Text);
        _ -> binary:part(Text, 0, Size)
    end.

%% @doc Makes the event of a message. If the message contains the moment of its sending, the event
%% tells how long it was on its way.
-spec delivered(binary(), Event) -> Event | {delivered, integer(), Event}.
delivered(Message, Event) ->
    case binary:match(Message, <<"sent=">>) of
        {At, 5} ->
            <<_:At/binary, "sent=", Rest/binary>> = Message,
            case moment(Rest, 0, 0) of
                none -> Event;
                Clock -> {delivered, Clock, Event}
            end;
        nomatch -> Event
    end.

%% The perf counter is not negative on the systems that agents run on.
moment(<<$;, _/binary>>, Number, Digits) when Digits > 0 -> Number;
moment(<<Digit, Rest/binary>>, Number, Digits) when Digit >= $0, Digit =< $9, Digits < ?DIGITS ->
    moment(Rest, 10 * Number + Digit - $0, Digits + 1);
moment(_, _, _) -> none.
