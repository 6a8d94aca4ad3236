%% @doc Draws charts with `web/chart', which runs in Node.js.
-module(whittle_measure_draw).

-export([svg/1, png/1]).

%% @doc Draws descriptions of Vega-Lite as SVG texts. The error says how to get the drawing program.
-spec svg([whittle_json:json()]) -> {ok, [unicode:chardata()]} | {error, unicode:chardata()}.
svg(Charts) -> drawn("", Charts).

%% @doc Draws descriptions of Vega-Lite as PNG files.
-spec png([whittle_json:json()]) -> {ok, [binary()]} | {error, unicode:chardata()}.
png(Charts) ->
    case drawn(" --png", Charts) of
        {ok, Encoded} -> {ok, [base64:decode(Each) || Each <- Encoded]};
        {error, _} = Error -> Error
    end.

drawn(Option, Charts) ->
    Program = filename:join([whittle_measure_study:root(), "web", "chart", "draw.js"]),
    case {os:find_executable("node"), filelib:is_dir(filename:join([filename:dirname(Program), "..",
                                                                    "node_modules", "vega"]))} of
        {false, _} ->
            {error, "Node.js is not on the PATH: run `tools/setup web' in the source tree of "
                    "Whittle, and then write the page again (`whittle measure report DIR' or "
                    "`whittle load report DIR')"};
        {_, false} ->
            {error, "the packages of web/chart are missing: run `npm ci' in the directory web of "
                    "Whittle, and then write the page again (`whittle measure report DIR' or "
                    "`whittle load report DIR')"};
        {Node, true} ->
            draw([command(Node, Program), Option], Charts)
    end.

%% The drawing program reads its input to the end, so a filter suits it.
draw(Command, Charts) ->
    Self = self(),
    {Pid, Monitor} = spawn_monitor(
                       fun() ->
                               process_flag(trap_exit, true),
                               Self ! {self(), whittle_program:filter(
                                                 lists:flatten(Command),
                                                 iolist_to_binary(whittle_json:encode(Charts)),
                                                 infinity)}
                       end),
    receive
        {Pid, {ok, Drawings}} ->
            true = demonitor(Monitor, [flush]),
            {ok, _} = whittle_json:decode(Drawings);
        {Pid, {error, {_, Text}}} ->
            true = demonitor(Monitor, [flush]),
            {error, string:trim(Text)};
        {'DOWN', Monitor, process, Pid, Reason} ->
            {error, io_lib:format("~0tp", [Reason])}
    end.

command(Node, Program) ->
    unicode:characters_to_list([whittle_program:quoted(Node), $\s,
                                whittle_program:quoted(Program)]).
