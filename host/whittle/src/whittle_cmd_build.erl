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
                         fun check_paths/1,
                         fun(Build) ->
                                 whittle_runtime:reading(fun() -> with_cache(Build) end,
                                                         runtime_options())
                         end]).

%% From the first look into the cache until the output is written.
with_cache(Build) ->
    whittle_steps:steps([fun(_) -> check_needs(Build) end, fun get_otp/1, fun read/1,
                         fun name_output/1,
                         fun trim/1, fun get_runtime/1, fun write/1,
                         fun(Written) -> {ok, report(Written)} end]).

%% Steps: each adds to the build what it got

check_words(#{values := #{target := Target, vm := Vm} = Values} = Build) ->
    case [{Name, Why} || Name <- maps:get(app, Values, []),
                         {error, Why} <- [whittle_file_name:check(Name)]] of
        [] -> check_flavour(Target, Vm, Values, Build);
        [{Name, Why} | _] ->
            {error, {words, ["--app: the application's name `", whittle_file_name:printable(Name),
                             "' ", Why]}}
    end.

check_flavour(Target, Vm, Values, Build) ->
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

%% An OTP that has to be built takes minutes; one that is there is read in a moment.
check_needs(#{path := Path, values := #{otp := Release} = Values} = Build) ->
    case whittle_runtime:has_otp(Release, runtime_options()) of
        false ->
            whittle_progress:step("reading"),
            case whittle_read:check_needs(Path, #{libs => libs(), add => added(Values),
                                                  otp => Release}) of
                ok -> {ok, Build};
                {error, Error} -> system_error(Error)
            end;
        true ->
            {ok, Build}
    end.

%% Behind the user's: Whittle's own libraries for devices, where `make' has compiled them.
libs() -> string:lexemes(os:getenv("ERL_LIBS", ""), ":") ++ [whittle_device:lib_dir()].

added(Values) -> [list_to_atom(Name) || Name <- maps:get(app, Values, [])].

get_otp(#{values := #{otp := Release}} = Build) ->
    case whittle_runtime:otp(Release, runtime_options()) of
        {ok, Otp} -> {ok, Build#{otp => Otp}};
        Error -> runtime_error(Error)
    end.

read(#{path := Path, otp := #{lib := Lib}, natives := Natives, values := Values} = Build) ->
    whittle_progress:step("reading"),
    Links = case Values of
                #{no_outside_links := true} -> refuse;
                #{} -> note
            end,
    case whittle_read:read(Path, #{otp_lib => Lib, libs => libs(), natives => Natives,
                                   add => added(Values), outside_links => Links}) of
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
                         fun(#{system := Whole} = Trimmed) ->
                                 {ok, Trimmed#{system := whittle_identity:told(Whole)}}
                         end,
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
        {error, Error} -> whittle_failure:shake(Error)
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

%% Beside the output its plan, for `whittle why'.
write(#{system := System, runtime := Runtime, out := Out, options := Options} = Build) ->
    whittle_progress:step("packing"),
    Plan = case Build of
               #{plan := Account} -> {ok, Account};
               #{} -> none
           end,
    Both = maps:merge(Options, whittle_plan_file:beside(Out, Plan)),
    case whittle_pack:write(System, Runtime, Out, Both) of
        {ok, Written} -> {ok, Build#{written => Written}};
        {error, Error} -> pack_error(Error)
    end.

%% What they are told, and what they say

runtime_options() -> #{progress => fun whittle_progress:event/1}.

pack_options(#{format := Format} = Values) ->
    maps:merge(#{format => case Format of "exe" -> exe; "dir" -> dir end},
               maps:with([ca_certs], Values)).

system_error(Error) -> whittle_failure:system(Error).

pack_error(Error) -> whittle_failure:pack(Error).

runtime_error(Error) -> whittle_failure:runtime(Error).

report(#{system := System, runtime := Runtime, out := Out, otp := #{root := Root},
         written := #{size := Size, vm := Vm}} = Build) ->
    Account = whittle_ledger:account(
                (maps:with([costs], Build))
                #{system => System, runtime => Runtime, out => Out,
                  stock_vm => stock_vm(Root),
                  contents => #{size => Size, vm => Vm, code => Size - Vm}}),
    #{text => whittle_ledger:text(Account), json => Account#{sha256 => sha256(Out)}}.

%% Of the executable; a directory has no sum of its own, its tree/etc/bom.json has those of
%% its parts.
sha256(Out) ->
    case filelib:is_dir(Out) orelse file:read_file(Out) of
        {ok, Bytes} -> string:lowercase(binary:encode_hex(crypto:hash(sha256, Bytes)));
        _ -> null
    end.

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

%% What loads cold modules cannot be one. What explains an `undef' may have to do so where no
%% module can be loaded.
early_modules(#{shake := #{missing := load}}) ->
    [whittle_start_cold | whittle_boot:early_modules()];
early_modules(#{shake := #{missing := crash}}) ->
    [whittle_start_removed | whittle_boot:early_modules()];
early_modules(_) ->
    whittle_boot:early_modules().
