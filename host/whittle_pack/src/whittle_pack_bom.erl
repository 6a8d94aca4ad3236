%% @hidden Writes the bill of materials, as SPDX 2.3 in JSON.
%%
%% The source is the SPDX specification 2.3, clauses 6 (document), 7 (package) and 11
%% (relationships).
-module(whittle_pack_bom).

-export([document/2]).

%% @doc Makes the document from the data of `--whittle-info' and the parts. Its date is
%% SOURCE_DATE_EPOCH, or 1970. The current date would make two builds of the same inputs differ.
-spec document(whittle_json:json(), [whittle_pack_licenses:part()]) -> whittle_json:json().
document(#{name := Name, version := Version} = Info, Parts) ->
    Root = id([<<"output">>, Name]),
    Packages = [{id([atom_to_binary(Kind), PartName]), Part}
                || #{kind := Kind, name := PartName} = Part <- Parts],
    #{spdxVersion => <<"SPDX-2.3">>,
      dataLicense => <<"CC0-1.0">>,
      'SPDXID' => <<"SPDXRef-DOCUMENT">>,
      name => <<Name/binary, $-, Version/binary>>,
      documentNamespace => namespace(Info),
      creationInfo => #{created => created(), creators => [<<"Tool: whittle">>]},
      packages => [package(Root, #{name => Name, version => Version})
                   | [package(Id, Part) || {Id, Part} <- Packages]],
      relationships =>
          [relationship(<<"SPDXRef-DOCUMENT">>, <<"DESCRIBES">>, Root)
           | [relationship(Root, verb(Part), Id) || {Id, Part} <- Packages]]}.

%% Internal

package(Id, #{name := Name, version := Version} = Part) ->
    Unknown = <<"NOASSERTION">>,
    License = maps:get(license, Part, Unknown),
    Base = #{'SPDXID' => Id, name => Name, versionInfo => Version,
             downloadLocation => maps:get(homepage, Part, Unknown),
             filesAnalyzed => false,
             licenseConcluded => License, licenseDeclared => License,
             copyrightText => maps:get(copyright, Part, Unknown)},
    case Part of
        #{sha256 := Sum} when Sum =/= <<>> ->
            Base#{checksums => [#{algorithm => <<"SHA256">>, checksumValue => Sum}]};
        _ ->
            Base
    end.

verb(#{kind := component}) -> <<"STATIC_LINK">>;
verb(#{kind := application}) -> <<"CONTAINS">>.

relationship(From, Type, To) ->
    #{spdxElementId => From, relationshipType => Type, relatedSpdxElement => To}.

%% Makes an identifier. Identifiers contain only letters, digits, `.' and `-'.
id(Words) ->
    Text = iolist_to_binary(["SPDXRef" | [[$-, Word] || Word <- Words]]),
    << <<(case is_plain(C) of true -> C; false -> $- end)>> || <<C>> <= Text >>.

is_plain(C) ->
    (C >= $a andalso C =< $z) orelse (C >= $A andalso C =< $Z)
        orelse (C >= $0 andalso C =< $9) orelse C =:= $. orelse C =:= $-.

%% Makes a UUID of version 8 (RFC 9562) from all contents of the document.
namespace(Info) ->
    <<A:48, _:4, B:12, _:2, C:62, _/binary>> =
        crypto:hash(sha256, whittle_json:encode(Info)),
    <<D:32, E:16, F:16, G:16, H:48>> = <<A:48, 8:4, B:12, 2:2, C:62>>,
    iolist_to_binary(io_lib:format("urn:uuid:~8.16.0b-~4.16.0b-~4.16.0b-~4.16.0b-~12.16.0b",
                                   [D, E, F, G, H])).

created() ->
    Seconds = case string:to_integer(os:getenv("SOURCE_DATE_EPOCH", "0")) of
                  %% The end of the year 9999
                  {N, []} when N >= 0, N < 253402300800 -> N;
                  _ -> 0
              end,
    list_to_binary(calendar:system_time_to_rfc3339(Seconds, [{offset, "Z"}])).
