"""Reads a scrape with prometheus-client's own parsers and prints a line for each
sample: its name, its labels as NAME=HEX, its value and its exemplar's labels.
usage: parse_metrics.py prometheus|openmetrics FILE"""
import sys

if sys.argv[1] == "openmetrics":
    from prometheus_client.openmetrics.parser import text_string_to_metric_families
else:
    from prometheus_client.parser import text_string_to_metric_families


def labels(pairs):
    return ",".join(f"{name}={value.encode().hex()}" for name, value in sorted(pairs.items()))


with open(sys.argv[2], encoding="utf-8", newline="") as file:
    for family in text_string_to_metric_families(file.read()):
        print(f"family {family.name} {family.type} {family.unit} {family.documentation.encode().hex()}")
        for sample in family.samples:
            exemplar = labels(sample.exemplar.labels) if sample.exemplar else ""
            print(f"sample {sample.name} {labels(sample.labels)} {float(sample.value)!r} {exemplar}")
