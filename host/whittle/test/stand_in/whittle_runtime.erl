%% Replaces the application that builds VMs, because a build takes minutes. It uses the host's own
%% OTP, and the program in $STAND_IN_VM as the runtime. $STAND_IN selects the fault: `broken' is a
%% build that fails, and `slow' is one that does not end.
-module(whittle_runtime).

-export([empty_cut/0, check/1, check/2, given/2, patches_apply/2, source/2, ensure/2, vm_bytes/2,
         otp/2, has_otp/2, otp_libs/1, suites/2, artifact/2, kept/4, unwritten/2, source_file/3,
         targets/0, emulator/1, default_target/0, otps/0, default_otp/0, levels/0, format_error/1,
         step_output/1, cached/1, uncache/2, reading/2, alone/2]).

targets() ->
    Emulator = case os:getenv("STAND_IN") of
                   "no_emulator" -> "qemu-nowhere";
                   _ -> "/usr/bin/env"
               end,
    [#{name => "x86_64", summary => "64-bit PCs", cpu => "any", word_size => 64,
       endian => little, float => hard, flavors => [size], emulator => [], notes => []},
     #{name => "board", summary => "a board", cpu => "small ones", word_size => 32,
       endian => big, float => soft, flavors => [size, speed],
       emulator => ["env", "EMULATED=it's so", Emulator], notes => ["it has no clock"]}].

emulator(Target) ->
    [Described] = [Described || #{name := Name} = Described <- targets(), Name =:= Target],
    whittle_target:emulator(Described).

default_target() -> "x86_64".

otps() -> ["25", "17"].

default_otp() -> "25".

levels() -> [mix].

empty_cut() -> #{functions => #{}, libraries => [], programs => [], preloaded => #{}}.

%% Each function that the program cannot reach has one byte.
vm_bytes(#{cut := #{functions := Functions}}, _) -> {ok, 1_000_000 - map_size(Functions)}.

check(Spec) -> check(Spec, #{}).

check(#{target := Target, flavor := Flavor}, _) ->
    [Known] = [Flavors || #{name := Name, flavors := Flavors} <- targets(), Name =:= Target],
    case lists:member(Flavor, Known) of
        true -> ok;
        false -> {error, {unsupported_flavor, #{flavor => Flavor, target => Target,
                                                known => Known}}}
    end.

given(File, _) -> {error, {unreadable, #{file => File, reason => enoent}}}.

patches_apply(_, _) -> ok.

source("25", _) -> {ok, "25.0"};
source("17", _) -> {error, no_source()}.

otp("25", _) ->
    Root = code:root_dir(),
    {ok, #{otp => "25", vsn => "25.0", erts_vsn => "13.1.5", root => Root,
           lib => code:lib_dir(),
           stock_programs => whittle_recipe_otp:stock_programs(Root)
               ++ [File || File <- [os:getenv("STAND_IN_STOCK_PROGRAM")], File =/= false],
           id => "0", dir => Root}};
otp("17", _) ->
    {error, no_source()}.

no_source() ->
    Tried = {no_apt, #{reason => "there is no network"}},
    {no_source, #{component => erlang, release => "17", tried => [Tried]}}.

%% OTP 25 exists, and OTP 17 does not.
has_otp(Otp, _) -> Otp =:= "25".

otp_libs(_) -> [].

ensure(#{target := Target, otp := Otp, flavor := Flavor, natives := Natives},
       #{progress := Progress}) ->
    Step = #{task => "VM for " ++ Target, step => "configure", index => 1, 'of' => 3,
             percent => 7},
    Progress(Step),
    case os:getenv("STAND_IN") of
        "broken" ->
            Progress(Step#{percent := 8}),
            {error, {step_failed, #{step => "configure", status => 2, log => "/the/log",
                                    tail => [<<"cc: no such thing">>, <<"make: failed">>]}}};
        "slow" ->
            Progress(Step#{step := "compile", index := 2, percent := 50}),
            receive never -> ok end;
        false ->
            File = os:getenv("STAND_IN_VM"),
            {ok, #{target => Target, otp => Otp, otp_vsn => Otp ++ ".0",
                   erts_vsn => "13.1.5", flavor => Flavor, natives => Natives,
                   programs => #{}, executable => File, symbols => File,
                   components => [], id => "0", dir => filename:dirname(File)}}
    end.

suites(_, _) -> {error, no_source()}.

artifact(_, _) -> {error, no_source()}.

%% No module changes, because that takes seconds.
kept(_, _, _, _) -> {ok, #{changed => false}}.

unwritten(Reason, Dir) -> {error, {Reason, Dir}}.

source_file(_, _, _) -> {error, no_source()}.

format_error(Reason) -> whittle_runtime_error:format(Reason).

step_output(Reason) -> whittle_runtime_error:step_output(Reason).

cached(Options) -> whittle_cache_clean:entries(Options).

uncache(Entry, Options) -> whittle_cache_clean:remove(Entry, Options).

reading(Fun, Options) -> whittle_cache:reading(Fun, Options).

alone(Fun, Options) -> whittle_cache:alone(Fun, Options).
