%% @doc Runs the commands of examples/docket/stage, and knows the addresses of its nodes.
-module(docket_stage).

-export([command/1, connect/3, directory/0]).

-define(PORT, 8080).

%% @doc Runs one command, and returns what it wrote.
-spec command([string()]) -> ok | {error, Output :: binary()}.
command(Arguments) ->
    Script = filename:join([root(), "examples", "docket", "stage"]),
    Port = open_port({spawn_executable, Script},
                     [{args, [lists:flatten(Each) || Each <- Arguments]}, exit_status, binary,
                      stderr_to_stdout]),
    ended(Port, []).

ended(Port, Output) ->
    receive
        {Port, {data, Data}} -> ended(Port, [Output, Data]);
        {Port, {exit_status, 0}} -> ok;
        {Port, {exit_status, _}} -> {error, iolist_to_binary(Output)}
    end.

%% @doc Connects to a node, from within the network of the stage.
-spec connect(pos_integer(), [gen_tcp:connect_option()], timeout()) ->
          {ok, gen_tcp:socket()} | {error, term()}.
connect(Node, Options, Timeout) ->
    try gen_tcp:connect({10, 77, 0, Node}, ?PORT, [{netns, hub()} | Options], Timeout)
    catch exit:badarg -> {error, no_network}      % the stage has ended
    end.

hub() -> "/run/netns/" ++ os:getenv("STAGE_NAME", "docket") ++ "-hub".

%% @doc Returns the directory of the stage, which has the logs of the nodes.
-spec directory() -> file:filename().
directory() -> os:getenv("STAGE_DIR", filename:join([root(), "_build", "stage"])).

%% The scripts set this.
root() -> os:getenv("STAGE_ROOT", ".").
