%% @doc What must be known about OTP's own applications, as data.
-module(whittle_otp).

-export([is_otp/1, is_left_out/1, left_out_home/1, does_without/2]).
-export([natives/1, program/2, unsupported/1]).

%% @doc Whether OTP ships an application of that name.
-spec is_otp(whittle_system:app_name()) -> boolean().
is_otp(Name) ->
    lists:member(Name,
                 [asn1, common_test, compiler, crypto, debugger, dialyzer,
                  diameter, edoc, eldap, erl_docgen, erl_interface, erts, et,
                  eunit, ftp, hipe, inets, jinterface, kernel, megaco, mnesia,
                  observer, odbc, os_mon, parsetools, public_key, reltool,
                  runtime_tools, sasl, snmp, ssh, ssl, stdlib, syntax_tools,
                  tftp, tools, wx, xmerl]).

%% Applications that Whittle's build of OTP leaves out (whittle_recipe_otp), with the modules that
%% others call, by OTP's documentation. wx and odbc are in unsupported/1.
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

%% @doc Whether Whittle builds OTP without this application of OTP.
-spec is_left_out(whittle_system:app_name()) -> boolean().
is_left_out(Name) -> lists:keymember(Name, 1, ?LEFT_OUT).

%% @doc The application that has a module, of those that Whittle's build of OTP leaves out.
-spec left_out_home(module()) -> {ok, whittle_system:app_name()} | none.
left_out_home(Module) ->
    case [Name || {Name, Modules} <- ?LEFT_OUT, lists:member(Module, Modules)] of
        [Name] -> {ok, Name};
        [] -> none
    end.

%% @doc Whether an application of OTP works without another one that it calls: it asks first, or
%% makes the call only for a person who traces it.
-spec does_without(whittle_system:app_name(), whittle_system:app_name()) -> boolean().
does_without(_, runtime_tools) -> true;         % dbg
does_without(compiler, crypto) -> true;         % encrypted debug information
does_without(ssl, inets) -> true;               % ssl_crl_cache fetches lists if it is told to
does_without(sasl, tools) -> true;              % xref, for systools with the option exref
does_without(runtime_tools, mnesia) -> true;    % observer_backend shows tables that are there
does_without(_, _) -> false.

%% @doc What the runtime has to link for an application of OTP, as long as the
%% module that loads it is there. Without their natives the others (dyntrace of
%% runtime_tools, megaco's scanner) use their Erlang.
-spec natives(whittle_system:app()) -> [whittle_system:native()].
natives(#{name := crypto, modules := #{crypto := _}}) -> [crypto];
natives(#{name := asn1, modules := #{asn1rt_nif := _}}) -> [asn1];
natives(_) -> [].

%% Programs and libraries for one machine that OTP's applications have in priv, by the last
%% part of the path. `linked': every VM of ours has it, or the VM of a system that calls it
%% (natives/1). `unused': OTP does without it, on Linux at least. What is not in this list is
%% not known to do without.
-define(NATIVE_FILES,
        [{asn1, "asn1rt_nif.so", linked},
         {crypto, "crypto.so", linked},
         {crypto, "crypto_callback.so", linked},
         {crypto, "otp_test_engine.so", unused},            % of OTP's own tests
         {megaco, "megaco_flex_scanner_drv.so", unused},    % there is one in Erlang
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

%% @doc What is known of a file for one machine that an application of OTP brings.
-spec program(whittle_system:app_name(), whittle_system:path()) -> linked | unused | unknown.
program(Name, Path) ->
    Base = filename:basename(unicode:characters_to_list(Path)),
    case [Known || {App, File, Known} <- ?NATIVE_FILES, App =:= Name, File =:= Base] of
        [Known] -> Known;
        [] -> unknown
    end.

%% @doc Why an application of OTP cannot work in one static file, or `false'. What starts a
%% program of its own that cannot be linked in is of no use without it.
-spec unsupported(whittle_system:app_name()) -> false | unicode:chardata().
unsupported(wx) -> "it loads the machine's wxWidgets";
unsupported(odbc) -> "its program odbcserver loads the machine's ODBC drivers";
unsupported(_) -> false.
