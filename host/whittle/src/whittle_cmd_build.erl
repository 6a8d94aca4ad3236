%% @doc `whittle build': reads the input, runs the passes, gets the runtime, and
%% writes the output; ends with the account of its bytes.
-module(whittle_cmd_build).
-behaviour(whittle).

-include_lib("kernel/include/file.hrl").

-export([run/1]).

%% @doc Builds. What can be refused without the long work is refused first.
-spec run(whittle_words:values()) -> {ok, whittle:result()} | {error, whittle:failure()}.
run(#{arguments := [Path]} = Values) ->
    whittle_steps:steps([fun(_) -> check_words(#{path => Path, values => Values}) end,
                         fun check_paths/1, fun get_otp/1, fun read/1, fun name_output/1,
                         fun trim/1, fun get_runtime/1, fun write/1, fun write_plan/1,
                         fun(Build) -> {ok, report(Build)} end]).

%% Steps: each adds to the build what it got

check_words(#{values := #{target := Target, vm := Vm} = Values} = Build) ->
    [Flavours] = [[atom_to_list(F) || F <- Known]
                  || #{name := Name, flavours := Known} <- whittle_runtime:targets(),
                     Name =:= Target],
    case lists:member(Vm, Flavours) of
        true ->
            case whittle_shake_words:options(Values) of
                {ok, Shake} -> {ok, Build#{shake => Shake}};
                {error, _} = Error -> Error
            end;
        false -> {error, {words, ["target ", Target, " has no flavour ", Vm,
                                  "; take one of ", lists:join(", ", Flavours)]}}
    end.

check_paths(#{path := Path, values := Values} = Build) ->
    Files = string:lexemes(maps:get(native, Values, ""), ","),
    Read = whittle_steps:steps([fun(_) -> whittle_read:check(Path) end,
                                fun(_) -> whittle_native:read_all(Files) end]),
    case {Read, Values} of
        {{ok, Natives}, #{out := Out}} -> check_output(Out, Build#{natives => Natives});
        {{ok, Natives}, #{}} -> {ok, Build#{natives => Natives}};
        {{error, Error}, _} -> system_error(Error)
    end.

get_otp(#{values := #{otp := Release}} = Build) ->
    case whittle_runtime:otp(Release, runtime_options()) of
        {ok, Otp} -> {ok, Build#{otp => Otp}};
        Error -> runtime_error(Error)
    end.

read(#{path := Path, otp := #{lib := Lib}, natives := Natives} = Build) ->
    whittle_progress:step("reading"),
    Libs = string:lexemes(os:getenv("ERL_LIBS", ""), ":"),
    case whittle_read:read(Path, #{otp_lib => Lib, libs => Libs, natives => Natives}) of
        {ok, System} -> add_device(Build#{system => System});
        {error, Error} -> system_error(Error)
    end.

add_device(#{system := System} = Build) ->
    case whittle_device:add(System) of
        {ok, With} -> {ok, Build#{system := With}};
        {error, Error} -> system_error(Error)
    end.

name_output(#{out := _} = Build) -> {ok, Build};
name_output(#{system := System} = Build) -> check_output(whittle_system:name(System), Build).

check_output(Given, #{path := Path, values := Values} = Build) ->
    Options = pack_options(Values),
    Out = case Options of
              #{format := dir} -> filename:join([Given]);   % no slash at its end
              #{format := exe} -> Given
          end,
    case {is_same_file(Path, Out), whittle_pack:check_output(Out, Options)} of
        {true, _} -> {error, {work, [Out, " is what is to be built: name another file with -o"]}};
        {false, ok} -> check_plan(Build#{out => Out, options => Options});
        {false, {error, Error}} -> pack_error(Error)
    end.

check_plan(#{shake := none} = Build) ->
    {ok, Build};
check_plan(#{out := Out} = Build) ->
    case whittle_plan_file:check(Out) of
        ok -> {ok, Build};
        Error -> Error
    end.

%% A directory as output is refused anyhow.
is_same_file(One, Other) ->
    case {file:read_file_info(One), file:read_file_info(Other)} of
        {{ok, #file_info{type = regular, major_device = Device, inode = Inode}},
         {ok, #file_info{major_device = Device, inode = Inode}}} -> true;
        _ -> false
    end.

trim(#{values := #{vm := Vm} = Values} = Build) ->
    %% Only the JIT reads the types that the compiler found.
    Types = case Vm of "size" -> drop; "speed" -> keep end,
    Includes = case Values of
                   #{keep_include := true} -> #{includes => keep};
                   _ -> #{}
               end,
    Attributes = case Values of
                     #{keep_attributes := true} -> keep;
                     _ -> auto
                 end,
    Options = Includes#{strip => #{types => Types, attributes => Attributes}},
    whittle_steps:steps([fun(_) -> pass(whittle_pass:whole(), Options, Build) end,
                         fun(Trimmed) -> shake(Options, Trimmed) end,
                         fun(Shaken) -> pass(whittle_pass:within(), Options, Shaken) end,
                         fun(#{system := Smaller} = Passed) ->
                                 {ok, Passed#{system := whittle_boot:set_start_modules(
                                                          early_modules(Build), Smaller)}}
                         end]).

pass(Passes, Options, #{system := System} = Build) ->
    case whittle_pass:run(Passes, Options, System) of
        {ok, Smaller} -> {ok, Build#{system := Smaller}};
        {error, Error} -> system_error(Error)
    end.

shake(_, #{shake := none, system := System} = Build) ->
    {ok, Build#{system := whittle_boot:set_traced(System)}};
shake(Options, #{shake := Shake, system := System, otp := #{lib := Lib}} = Build) ->
    whittle_progress:step("shaking"),
    Plan = whittle_steps:steps([fun(_) -> whittle_otp_lib:open(Lib) end,
                                fun whittle_otp_lib:preloaded/1,
                                fun(Preloaded) ->
                                        whittle_shake:plan(
                                          System, Shake#{preloaded => Preloaded})
                                end]),
    case Plan of
        {ok, Decided} ->
            ok = lists:foreach(fun whittle_progress:note/1,
                               whittle_shake:open_doors(Decided)
                               ++ whittle_shake:warnings(Decided)),
            carry_out(Decided, Options, Build);
        {error, Error} -> {error, {work, whittle_shake:format_error(Error),
                                   whittle_shake:details(Error)}}
    end.

carry_out(Plan, Options, #{system := System} = Build) ->
    case pass([whittle_pass_shake], Options#{shake => Plan}, Build) of
        {ok, #{system := Shaken} = Done} ->
            {ok, Done#{plan => whittle_shake_account:new(Plan, Shaken),
                       costs => whittle_shake_cost:costs(Plan, System)}};
        {error, _} = Error -> Error
    end.

get_runtime(#{system := System,
              values := #{target := Target, otp := Otp, vm := Vm}} = Build) ->
    Flavour = case Vm of "size" -> size; "speed" -> speed end,
    case whittle_runtime:ensure(#{target => Target, otp => Otp, flavour => Flavour,
                                  natives => whittle_system:natives(System)},
                                runtime_options()) of
        {ok, Runtime} -> {ok, Build#{runtime => Runtime}};
        Error -> runtime_error(Error)
    end.

write(#{system := System, runtime := Runtime, out := Out, options := Options} = Build) ->
    whittle_progress:step("packing"),
    case whittle_pack:write(System, Runtime, Out, Options) of
        {ok, Written} -> {ok, Build#{written => Written}};
        {error, Error} -> pack_error(Error)
    end.

%% Beside the output, for `whittle why'.
write_plan(#{out := Out, plan := Account} = Build) ->
    case whittle_plan_file:write(Out, Account) of
        ok -> {ok, Build};
        {error, Error} -> pack_error(Error)
    end;
write_plan(#{out := Out} = Build) ->
    ok = whittle_plan_file:remove(Out),
    {ok, Build}.

%% What they are told, and what they say

runtime_options() -> #{progress => fun whittle_progress:event/1}.

pack_options(#{format := Format} = Values) ->
    maps:merge(#{format => case Format of "exe" -> exe; "dir" -> dir end},
               maps:with([ca_certs], Values)).

system_error(Error) -> {error, {work, whittle_system:format_error(Error)}}.

pack_error(Error) -> {error, {work, whittle_pack:format_error(Error)}}.

runtime_error(Error) ->
    {error, {work, whittle_runtime:format_error(Error), whittle_runtime:last_words(Error)}}.

report(#{system := System, runtime := Runtime, out := Out, otp := #{root := Root},
         written := #{size := Size, vm := Vm}} = Build) ->
    Account = whittle_ledger:account(
                (maps:with([costs], Build))
                #{system => System, runtime => Runtime, out => Out,
                  stock_vm => stock_vm(Root),
                  contents => #{size => Size, vm => Vm, code => Size - Vm}}),
    #{text => whittle_ledger:text(Account), json => Account}.

%% What a release ships of a stock ERTS, without debug information: whoever
%% ships it unstripped ships five times as much. Programs that only our own
%% install of an OTP has are left out.
stock_vm(Root) ->
    Files = [File || File <- filelib:wildcard(filename:join(Root, "erts-*/bin/*")),
                     filelib:is_regular(File)],
    Names = [filename:basename(File) || File <- Files],
    Own = ["yielding_c_fun" | ["beam.emu" || lists:member("beam.smp", Names)]],
    lists:sum([Size || File <- Files, not lists:member(filename:basename(File), Own),
                       {ok, Size} <- [whittle_pack:loaded_size(File)]]).

%% What loads cold modules cannot be one.
early_modules(#{shake := #{missing := load}}) ->
    [whittle_start_cold | whittle_boot:early_modules()];
early_modules(_) ->
    whittle_boot:early_modules().
