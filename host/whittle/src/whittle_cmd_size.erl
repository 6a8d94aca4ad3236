%% @doc Implements `whittle size'. It shows the size of each part of an executable, an image or a
%% card.
-module(whittle_cmd_size).
-behaviour(whittle).

-export([command/0, run/1]).

%% @doc Describes the command and its options.
-spec command() -> whittle_command_line:command().
command() ->
    #{name => "size", arguments => ["OUT"],
      help => "show the size of each part of an executable, an image or a card",
      options => [#{name => by, long => "by", value => "WHAT",
                    one_of => fun() -> [part, reason] end,
                    default => fun() -> part end,
                    help => "group by part, or by the application or entry point that needs the "
                            "code"},
                  whittle_command_line:json()]}.

%% @doc Computes the sizes by part, by application and by module, the largest first.
-spec run(whittle_command_line:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Out], by := By}) ->
    case whittle_board:kind(Out) of
        other -> executable(Out, By);
        Kind when By =:= reason, Kind =/= cut ->
            whittle_failure:usage("--by reason needs an executable: build it without --board");
        card -> card(Out);
        _ -> image(Out)
    end.

card(Out) ->
    case whittle_board:card(Out) of
        {ok, Card} ->
            {ok, #{json => whittle_image_table:card_json(Card),
                   text => whittle_image_table:card(Card, Out)}};
        {error, Error} -> whittle_failure:board(Error)
    end.

image(Out) ->
    case whittle_board:label(Out) of
        {ok, #{parts := Parts, size := Size} = Label} ->
            {ok, #{json => Label, text => whittle_image_table:text(Parts, Out, Size)}};
        {error, Error} -> whittle_failure:board(Error)
    end.

executable(Out, reason) ->
    case whittle_plan_file:read(Out) of
        {ok, Plan} -> {ok, reasons(whittle_shake_saved:weights(Plan))};
        {error, Error} -> whittle_failure:make({plan_file, Error})
    end;
executable(Out, part) ->
    case whittle_pack:parts(Out) of
        {ok, Parts} ->
            {ok, report(Parts)};
        {error, Error} ->
            whittle_failure:make({pack, Error})
    end.

%% Internal

report(#{size := Size} = Parts) ->
    #{json => Parts,
      text => [table("part", maps:get(parts, Parts), [[<<"the file">>, Size, ""]]), $\n,
               table("application", maps:get(applications, Parts), []), $\n,
               table("module", maps:get(modules, Parts), [])]}.

table(Title, Parts, Last) ->
    whittle_table:text([[Title, "stored", "raw"]
                        | [[Name, Stored, Raw]
                           || #{name := Name, stored := Stored, raw := Raw} <- Parts]] ++ Last).

reasons(#{roots := Roots, on := On, off := Off} = Weights) ->
    #{json => Weights,
      text => [weights("code, by the application or entry point that needs it", Roots),
               weights("features that are on, with their own code", On),
               additions("features that are off, with the code that each would add", Off),
               "Bytes are estimates of code before compression.\n"]}.

additions(_, []) -> "";
additions(Title, Weights) ->
    [whittle_table:text([[Title, "functions", "bytes"]
                         | [[Name, Functions, Bytes]
                            || #{name := Name, functions := Functions, bytes := Bytes}
                                   <- Weights]]), $\n].

weights(_, []) -> "";
weights(Title, Weights) ->
    Rows = [[Name, Functions, Bytes, io_lib:format("~.1f %", [100 * Share])]
            || #{name := Name, functions := Functions, bytes := Bytes, share := Share} <- Weights],
    [whittle_table:text([[Title, "functions", "bytes", "share"] | Rows]), $\n].
