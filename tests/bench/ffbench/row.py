# SPDX-License-Identifier: GPL-2.0 OR Linux-OpenIB
"""One line of the table: samples, the peer's samples from the same minute, limits, verdict."""

import statistics


class Row:
    """values[i] and peer_values[i] belong to the same repetition. What is judged is the median of
    their ratios, or of the values where there is no peer in the limit (on="value"). With interval, a
    function of the ratios, a limit counts as reached or missed only where all of the interval is on
    that side of it."""

    def __init__(self, key, name, unit, values, peer=None, peer_values=None, must=None, aim=None,
                 sense="<=", on="ratio", where="", note="", detail=None, interval=None):
        self.key, self.name, self.unit = key, name, unit
        self.values = list(values)
        self.peer, self.peer_values = peer, list(peer_values or [])
        self.must, self.aim, self.sense, self.on = must, aim, sense, on
        self.where, self.note, self.detail = where, note, detail or {}
        self.interval_of = interval
        self.failure = None

    @classmethod
    def failed(cls, key, name, why):
        row = cls(key, name, "", [])
        row.failure = why
        return row

    @property
    def value(self):
        return statistics.median(self.values) if self.values else None

    @property
    def peer_value(self):
        return statistics.median(self.peer_values) if self.peer_values else None

    @property
    def ratios(self):
        return [v / p for v, p in zip(self.values, self.peer_values) if p]

    @property
    def ratio(self):
        return statistics.median(self.ratios) if self.ratios else None

    @property
    def judged(self):
        return self.ratio if self.on == "ratio" else self.value

    @property
    def spread(self):
        """(max - min) / median of what is judged, in per cent."""
        all_of = self.ratios if self.on == "ratio" and self.ratios else self.values
        if len(all_of) < 2 or not statistics.median(all_of):
            return None
        return 100 * (max(all_of) - min(all_of)) / statistics.median(all_of)

    @property
    def interval(self):
        """(low, high), or None."""
        return self.interval_of(self.ratios) if self.interval_of else None

    def _within(self, limit, value=None):
        value = self.judged if value is None else value
        return value <= limit if self.sense == "<=" else value >= limit

    def _verdict_of_interval(self):
        ends = self.interval
        if ends is None or len({self._within(self.must, end) for end in ends}) > 1:
            return "open"
        return "must" if self._within(self.must, ends[0]) else "MISSED"

    @property
    def verdict(self):
        if self.failure:
            return "failed"
        if self.must is None or self.judged is None:
            return ""
        if self.interval_of:
            return self._verdict_of_interval()
        if self.aim is not None and self._within(self.aim):
            return "aim"
        return "must" if self._within(self.must) else "MISSED"

    def limit(self, value):
        if value is None:
            return ""
        text = f"{value:g}"
        if self.on == "ratio":
            text += " x"
        elif self.unit:
            text += f" {self.unit}"
        return f"{self.sense} {text}"

    def as_dict(self):
        return {
            "measure": self.name, "unit": self.unit, "where": self.where, "note": self.note,
            "value": self.value, "values": self.values, "peer": self.peer,
            "peer_value": self.peer_value, "peer_values": self.peer_values,
            "ratio": self.ratio, "ratios": self.ratios, "spread_percent": self.spread,
            "interval": self.interval,
            "judged": self.on, "sense": self.sense, "must": self.must, "aim": self.aim,
            "verdict": self.verdict, "failure": self.failure, "detail": self.detail,
        }
