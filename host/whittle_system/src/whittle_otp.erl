%% @doc What must be known about OTP's own applications, as data.
-module(whittle_otp).

-export([is_otp/1, natives/1, unsupported/1]).

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

%% @doc Why an application of OTP cannot work in one static file, or `false'.
-spec unsupported(whittle_system:app_name()) -> false | unicode:chardata().
unsupported(wx) -> "it loads the machine's wxWidgets";
unsupported(_) -> false.
