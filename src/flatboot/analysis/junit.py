"""A comparison as JUnit XML, which CI systems read: a test case a phase."""

from __future__ import annotations

import datetime
import xml.etree.ElementTree as xml

from flatboot.analysis import verdict
from flatboot.analysis.compare import REGRESSION, UNDECIDED, Comparison

_PER_SECOND = 1e9


def text(comparison: Comparison, now: datetime.datetime) -> str:
    """Return the comparison in the XML that Jenkins' schema junit-10.xsd describes.

    A phase that regressed is a failure, unless the whole is none; one that could not be told is
    skipped. ``time`` is what the phase took in B on the largest machine, in seconds of the clock.
    """
    root = xml.Element("testsuites", name="flatboot compare")
    suite = xml.SubElement(
        root, "testsuite", name=f"{comparison.before} against {comparison.after}"
    )
    properties = xml.SubElement(suite, "properties")
    for name in ("before", "after", "clock", "unit", "verdict"):
        xml.SubElement(properties, "property", name=name, value=getattr(comparison, name))
    count = {"failure": 0, "skipped": 0}
    for phase in comparison.phases:
        seconds = verdict.largest(phase).after / _PER_SECOND
        case = xml.SubElement(
            suite, "testcase", name=phase.name, classname="flatboot.boot", time=f"{seconds:.6f}"
        )
        outcome = ""
        if phase.verdict == UNDECIDED:
            outcome = "skipped"
        elif phase.verdict == REGRESSION == comparison.verdict:
            outcome = "failure"
        if outcome:
            count[outcome] += 1
            message = verdict.describe(phase)
            xml.SubElement(case, outcome, type=phase.verdict, message=message)
        else:
            xml.SubElement(case, "system-out").text = verdict.describe(phase)
    xml.SubElement(suite, "system-out").text = "\n".join(
        [verdict.sentence(comparison), *comparison.notes]
    )
    numbers = {
        "tests": str(len(comparison.phases)),
        "failures": str(count["failure"]),
        "errors": "0",
        "time": f"{verdict.largest(comparison.phases[0]).after / _PER_SECOND:.6f}",
    }
    root.attrib.update(numbers)
    suite.attrib.update(numbers)
    suite.set("skipped", str(count["skipped"]))
    suite.set("timestamp", now.astimezone(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%S"))
    xml.indent(root)
    return xml.tostring(root, encoding="unicode", xml_declaration=True) + "\n"
