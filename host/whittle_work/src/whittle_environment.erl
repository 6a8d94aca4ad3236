%% @doc Reads the user's variables for Erlang, and gives them back to the user's programs.
%%
%% `erl' and `erlc' read many variables, such as `ERL_FLAGS', `ERL_LIBS' and `ERL_INETRC'. The user
%% sets them for the program that Whittle builds or runs. They could break Whittle's own VM and the
%% compilers that it starts, or run code there. So the script `whittle' renames each of them for its
%% VM: `ERL_FLAGS' becomes `WHITTLE_USER_ERL_FLAGS'. The programs that Whittle starts inherit the
%% new names, which Erlang ignores. A program that Whittle starts on the user's behalf receives the
%% old names ({@link given_back/1}). A VM that the script did not start has no renamed variables;
%% there the functions use the plain ones. A program of Whittle's own that is a VM receives none of
%% them ({@link withheld/1}).
-module(whittle_environment).

-export([value/2, given_back/1, withheld/1]).

-export_type([variables/0]).

%% Variables to set, or to unset with false, as `open_port/2' takes them.
-type variables() :: [{string(), string() | false}].

%% The script adds this to a name.
-define(KEPT, "WHITTLE_USER_").

%% A variable with one of these beginnings changes a stock VM or one that Whittle has built
%% (docs/launcher.md), except those that the script does not rename either.
-define(OF_A_VM, ["ERL_", "ERLC_", "ESCRIPT_", "RELEASE_", "RELX_CONFIG_PATH", "VMARGS_PATH",
                  "ERLANG_COOKIE", "WHITTLE_COOKIE_FILE"]).
-define(HARMLESS, ["ERL_COMPILER_OPTIONS", "ERL_CRASH_DUMP", "ERL_EPMD_"]).

%% @doc Returns the user's value of a variable, or the default if the user has not set it.
-spec value(string(), Default) -> string() | Default.
value(Name, Default) ->
    case os:getenv(?KEPT ++ Name) of
        false -> os:getenv(Name, Default);
        Value -> Value
    end.

%% @doc Returns the variables for a program of the user: the given ones, and those that the script
%% renamed, under their own names. A given variable replaces one of the user.
-spec given_back(variables()) -> variables().
given_back(Given) ->
    Kept = [{Name, Value} || ?KEPT ++ Setting <- os:getenv(),
                             [Name, Value] <- [string:split(Setting, "=")]],
    [{?KEPT ++ Name, false} || {Name, _} <- Kept]
        ++ [{Name, Value} || {Name, Value} <- Kept, not lists:keymember(Name, 1, Given)]
        ++ Given.

%% @doc Returns the variables for a VM of Whittle's own: the given ones, and none of the user's that
%% change a VM, neither under their own names nor as the script renamed them.
-spec withheld(variables()) -> variables().
withheld(Given) ->
    [{Name, false} || Setting <- os:getenv(), [Name, _] <- [string:split(Setting, "=")],
                      begins(Name, [?KEPT | ?OF_A_VM]), not begins(Name, ?HARMLESS),
                      not lists:keymember(Name, 1, Given)]
        ++ Given.

begins(Name, Beginnings) ->
    lists:any(fun(Beginning) -> lists:prefix(Beginning, Name) end, Beginnings).
