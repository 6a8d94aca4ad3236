%% @doc What must be known about OTP's own applications, as data.
-module(whittle_otp).

-export([is_otp/1, natives/1, program/2, unsupported/1]).

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
