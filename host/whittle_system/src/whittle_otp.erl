%% @doc Holds facts about OTP's own applications as data.
-module(whittle_otp).

-export([names/0, is_otp/1, parts/0, is_left_out/1, left_out_home/1, does_without/2]).
-export([natives/1, program/2, unsupported/1]).

%% @doc Lists the applications that OTP ships, or has shipped.
-spec names() -> [whittle_system:app_name()].
names() ->
    [asn1, common_test, compiler, crypto, debugger, dialyzer,
     diameter, edoc, eldap, erl_docgen, erl_interface, erts, et,
     eunit, ftp, hipe, inets, jinterface, kernel, megaco, mnesia,
     observer, odbc, os_mon, parsetools, public_key, reltool,
     runtime_tools, sasl, snmp, ssh, ssl, stdlib, syntax_tools,
     tftp, tools, wx, xmerl].

%% @doc Tells whether OTP ships an application of that name.
-spec is_otp(whittle_system:app_name()) -> boolean().
is_otp(Name) -> lists:member(Name, names()).

%% @doc Lists the applications of OTP that are a part of every system.
-spec parts() -> [whittle_system:app_name()].
parts() -> [erts, kernel, stdlib].

%% The applications that Whittle's build of OTP leaves out (whittle_recipe_otp). Each has the
%% modules that other applications call according to OTP's documentation. unsupported/1 lists wx
%% and odbc.
-define(LEFT_OUT,
        [{debugger, [debugger, i, int]},
         {dialyzer, [dialyzer]},
         {diameter, [diameter, diameter_codec, diameter_make, diameter_sctp, diameter_tcp]},
         {et, [et, et_collector, et_selector, et_viewer]},
         {jinterface, []},
         {megaco, [megaco, megaco_edist_compress, megaco_encoder, megaco_flex_scanner, megaco_sdp,
                   megaco_tcp, megaco_transport, megaco_udp]},
         {observer, [crashdump_viewer, etop, observer, ttb]},
         {reltool, [reltool]},
         {snmp, [snmp, snmpa, snmpa_conf, snmpa_error, snmpa_local_db, snmpa_mpd,
                 snmpa_supervisor, snmpc, snmp_community_mib, snmp_framework_mib, snmp_generic,
                 snmp_index, snmp_notification_mib, snmp_pdus, snmp_standard_mib,
                 snmp_target_mib, snmp_user_based_sm_mib, snmp_view_based_acm_mib, snmpm,
                 snmpm_conf, snmpm_mpd]},
         {wx, [wx, wx_object]}]).

%% @doc Tells whether Whittle builds OTP without this application of OTP.
-spec is_left_out(whittle_system:app_name()) -> boolean().
is_left_out(Name) -> lists:keymember(Name, 1, ?LEFT_OUT).

%% @doc Finds the application of a module, among those that Whittle's build of OTP leaves out.
-spec left_out_home(module()) -> {ok, whittle_system:app_name()} | none.
left_out_home(Module) ->
    case [Name || {Name, Modules} <- ?LEFT_OUT, lists:member(Module, Modules)] of
        [Name] -> {ok, Name};
        [] -> none
    end.

%% @doc Tells whether an application of OTP, or Elixir, works without another one that it calls.
%% Such an application checks first, or it calls the other one only for a person who traces it.
-spec does_without(whittle_system:app_name(), whittle_system:app_name()) -> boolean().
does_without(_, runtime_tools) -> true;         % dbg
does_without(compiler, crypto) -> true;         % encrypted debug information
does_without(ssl, inets) -> true;               % ssl_crl_cache fetches lists on request
does_without(sasl, tools) -> true;              % xref, for systools with the option exref
does_without(runtime_tools, mnesia) -> true;    % observer_backend shows existing tables
does_without(elixir, logger) -> true;           % only the command `elixir' starts it
does_without(_, _) -> false.

%% @doc Lists the natives that the runtime must link for an application of OTP while the module
%% that loads them exists. Other applications (dyntrace of runtime_tools, the scanner of megaco)
%% use their Erlang code without their natives.
-spec natives(whittle_system:app()) -> [whittle_system:native()].
natives(#{name := crypto, modules := #{crypto := _}}) -> [crypto];
natives(#{name := asn1, modules := #{asn1rt_nif := _}}) -> [asn1];
natives(_) -> [].

%% Programs and libraries in the priv directories of OTP's applications, by the last part of the
%% path. Each works on one kind of machine only. `linked': every VM of Whittle has it, or the VM
%% of a system that calls it (natives/1). `unused': OTP works without it, at least on Linux. For
%% any other file it is unknown whether OTP works without it.
-define(NATIVE_FILES,
        [{asn1, "asn1rt_nif.so", linked},
         {crypto, "crypto.so", linked},
         {crypto, "crypto_callback.so", linked},
         {crypto, "otp_test_engine.so", unused},            % for OTP's own tests
         {megaco, "megaco_flex_scanner_drv.so", unused},    % an Erlang version exists
         {megaco, "megaco_flex_scanner_drv_mt.so", unused},
         {os_mon, "cpu_sup", linked},
         {os_mon, "memsup", linked},
         {os_mon, "ferrule", unused},                       % Solaris
         {os_mon, "mod_syslog", unused},                    % Solaris
         {os_mon, "nteventlog.exe", unused},                % Windows
         {os_mon, "win32sysinfo.exe", unused},              % Windows
         {public_key, "public_key.so", unused},             % macOS
         {runtime_tools, "dyntrace.so", unused},
         {runtime_tools, "trace_file_drv.so", unused},      % dbg:trace_port(file, _)
         {runtime_tools, "trace_ip_drv.so", unused}]).      % dbg:trace_port(ip, _)

%% @doc Classifies a machine-dependent file of an OTP application.
-spec program(whittle_system:app_name(), whittle_system:path()) -> linked | unused | unknown.
program(Name, Path) ->
    Base = filename:basename(unicode:characters_to_list(Path)),
    case [Known || {App, File, Known} <- ?NATIVE_FILES, App =:= Name, File =:= Base] of
        [Known] -> Known;
        [] -> unknown
    end.

%% @doc Explains why an application of OTP cannot work in one static file, or returns `false'. An
%% application that starts its own program is useless if that program cannot be linked in.
-spec unsupported(whittle_system:app_name()) -> false | unicode:chardata().
unsupported(wx) -> "it loads the machine's wxWidgets";
unsupported(odbc) -> "its program odbcserver loads the machine's ODBC drivers";
unsupported(_) -> false.
