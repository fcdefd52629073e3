#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Each number of swakv-status is the one that it is called: the page holds one
of everything, and no number twice (fixture.c, distinct_snapshot())."""
import unittest

from test_status import Fixture, find, prometheus

JSON = {
    "pool.bytes.total": 1001, "pool.bytes.held": 1002, "pool.bytes.free": 1003, "pool.bytes.unusable": 1004,
    "pool.bytes.extent": 1005, "pool.bytes.table_area": 1006, "pool.bytes.table_area_used": 1007,
    "classes.0.page_bytes": 1011, "classes.0.pages.total": 1012, "classes.0.pages.free": 1013,
    "classes.0.pages.leased": 1014, "classes.0.pages.quarantined": 1015, "classes.0.pages.available": 1016,
    "classes.0.pages.ids": 1017, "classes.0.extents": 1018, "classes.0.sessions": 1019, "classes.0.empty_extents": 1020,
    "models.0.floor_bytes": 1131, "models.0.ceiling_bytes": 1032, "models.0.used_bytes": 1033,
    "models.0.floor_unused_bytes": 1131 - 1033, "models.0.oldest_wait_ms": 34000, "models.0.sessions": 1035,
    "models.0.waiting": 1036, "models.0.claims": True, "models.0.drained": True,
    "sessions.0.id": 1041, "sessions.0.generation": 1042, "sessions.0.pid": 1043, "sessions.0.uid": 1044,
    "sessions.0.state": "closing", "sessions.0.requests": 1045, "sessions.0.sequences": 1046,
    "sessions.0.model.streams": 1047, "sessions.0.model.max_batch": 1048, "sessions.0.open_points": 1049,
    "sessions.0.model.groups.0.window": 1051, "sessions.0.model.groups.0.page_tokens": 1052,
    "sessions.0.model.groups.0.private_per_sequence": 1053, "sessions.0.model.groups.0.held": 1054,
    "sessions.0.model.groups.0.tag": "a tag", "sessions.0.model.groups.0.page_bytes": 1011, "sessions.0.model.groups.0.class": 0,
    "sessions.0.pages.leased": 1055, "sessions.0.pages.quarantined": 1056, "sessions.0.pages.behind_points": 1057,
    "sessions.0.pages.unbound": 1058, "sessions.0.pages.private_per_sequence": 1053, "sessions.0.waiting": 1059,
    "sessions.0.last.command": "finish", "sessions.0.last.result": "limit", "sessions.0.last.age_ms": 61000,
    "sessions.0.attached_ms": 62000, "sessions.0.oldest_lease_ms": 63000, "sessions.0.ended_ms": 64000,
    "sessions.0.oldest_point_ms": 65000, "sessions.0.commands": 1066, "sessions.0.refused": 1067,
    "sessions.0.rounds_blocked": 1068, "sessions.0.longest_wait": 1069, "sessions.0.members": [1151, 1152],
    "sessions.0.asked": 1144, "sessions.0.unanswered": 1145, "sessions.0.model.groups.0.managed": 1141,
    "sessions.0.model.groups.0.offered": 1142, "sessions.0.model.groups.0.wanted": 1143,
    "sessions.0.model.groups.0.wanted_ms": 66000, "sessions.0.pages.managed": 1141, "sessions.0.pages.offered": 1142,
    "sessions.0.pages.wanted": 1143, "models.0.managed": 1141, "models.0.offered": 1142, "models.0.wanted": 1143,
    "models.0.wanted_ms": 66000,
    "moves.pages": 1171, "moves.bytes": 1172, "moves.no_place": 1173, "moves.emptying_extents": 1162, "moves.to_move": 1168,
    "classes.0.moved": 1161, "classes.0.emptying_extents": 1162, "classes.0.staying_extents": {"idle": 1163, "no-room": 1164},
    "sessions.0.pages.to_move": 1168, "sessions.0.staying_extents": {"pinned": 1169},
    "sessions.0.model.groups.0.movable": True, "sessions.0.model.groups.0.moved": 1165,
    "sessions.0.model.groups.0.wanted_ranges": [[1166, 1167]],
    "requests.0.session": 1041, "requests.0.phase": "finishing", "requests.0.pending": "compaction",
    "requests.0.stream": 1071, "requests.0.handle": "0x430", "requests.0.open_points": 1073, "requests.0.age_ms": 74000,
    "requests.0.n_sequences": 1, "requests.0.sequences.0.slot": 1081, "requests.0.sequences.0.generation": 1082,
    "requests.0.sequences.0.endpoint": 1083, "requests.0.sequences.0.pending_endpoint": 1084,
    "requests.0.sequences.0.retained_begin": 1085, "requests.0.sequences.0.retained_end": 1086,
    "requests.0.sequences.0.bound": 1, "requests.0.sequences.0.reserved": 1088, "requests.0.sequences.0.retiring": 1,
    "requests.0.sequences.0.staged": 1089, "requests.0.sequences.0.bindings": [[1091, 1092], [1093, 1094]],
    "map.extents": 1161, "map.class": [0], "map.live": [1162], "map.quarantined": [1163], "map.free": [1164],
    "map.session": [1165], "events.0.number": 0, "events.0.event": "limited", "events.0.age_ms": 68000,
    "events.0.session": 1171, "events.0.generation": 1172, "events.0.pid": 1173, "events.0.uid": 1174, "events.0.pages": 1175,
    "counters.attaches": 1101, "counters.detaches": 1102, "counters.deaths": 1103, "counters.kicked": 1104,
    "counters.refused_attaches": 1105, "counters.reclaimed_pages": 1106, "counters.commands": 1107,
    "counters.refusals": 1108, "counters.rounds": 1109, "counters.sleeps": 1110, "counters.wakeups": 1111,
    "device_lost_ms": 67000, "counters.late": 1112, "counters.rescues": 1113, "counters.timer_polls": 1114,
    "refusals_by_reason.no-pages": 1115,
    "models.0.bytes.bound": (1054 + 1301 - 1302 - 1141) * 2 * 1011, "models.0.bytes.reserved": 1302 * 2 * 1011,
    "models.0.bytes.managed": 1141 * 2 * 1011, "models.0.bytes.quarantined": -1301 * 2 * 1011,
    "sessions.0.totals.tokens.prefilled": 1201, "sessions.0.totals.tokens.stepped": 1202,
    "sessions.0.totals.pages.taken": 1203, "sessions.0.totals.pages.returned": 1204,
    "sessions.0.totals.pages.scrubbed": 1205, "sessions.0.totals.pages.moved": 1206,
    "sessions.0.totals.pages.yielded": 1207,
    "tallies.0.model": "one", "tallies.0.tokens.prefilled": 1211, "tallies.0.tokens.stepped": 1212,
    "tallies.0.pages.taken": 1213, "tallies.0.pages.returned": 1214, "tallies.0.pages.scrubbed": 1215,
    "tallies.0.pages.moved": 1216, "tallies.0.pages.yielded": 1217, "tallies.0.begins.admitted": 1221,
    "tallies.0.begins.waited": 1222, "tallies.0.begins.refused": 1223, "tallies.0.begins.refused_by_reason": {"no-pages": 1227},
    "tallies.0.takes.admitted": 1224, "tallies.0.takes.waited": 1225, "tallies.0.takes.refused": 1226,
    "tallies.0.takes.refused_by_reason": {"no-pages": 1228},
    "tallies.0.prepare": {"count": 15, "sum_us": 1231, "p50_us": 2 ** 36 // 1000 + 1, "p90_us": 2 ** 36 // 1000 + 1,
                          "p99_us": 2 ** 36 // 1000 + 1},
    "tallies.0.step": {"count": 1233, "sum_us": 1232, "p50_us": 9, "p90_us": 9, "p99_us": 9},
    "tallies.0.wait": {"count": 1235, "sum_us": 1234, "p50_us": 17, "p90_us": 17, "p99_us": 17},
}

METRICS = {
    "pool_size_bytes": 1001, "pool_bytes held": 1002, "pool_bytes free": 1003, "pool_bytes unusable": 1004,
    "extent_bytes": 1005, "table_area_size_bytes": 1006, "table_area_used_bytes": 1007,
    "class_size_pages": 1012, "class_pages free": 1013, "class_pages leased": 1014, "class_pages quarantined": 1015,
    "class_available_pages": 1016, "class_extents": 1018, "class_sessions": 1019, "class_empty_extents": 1020,
    "model_floor_bytes": 1131, "model_ceiling_bytes": 1032, "model_used_bytes": 1033, "model_oldest_wait_seconds": 34,
    "model_sessions": 1035, "model_waiting": 1036, "model_drained": 1, "model_pages": 1054,
    "session_requests": 1045, "session_sequences": 1046, "session_open_points": 1049, "session_pages leased": 1055,
    "session_pages quarantined": 1056, "session_unbound_pages": 1058, "session_waiting": 1059,
    "session_oldest_lease_seconds": 63, "session_commands_total": 1066, "session_refusals_total": 1067,
    "session_rounds_blocked_total": 1068, "session_managed_pages": 1141, "session_offered_pages": 1142,
    "session_wanted_pages": 1143, "session_wanted_seconds": 66, "session_asked_total": 1144,
    "session_unanswered_total": 1145, "session_pages_to_move": 1168, "class_emptying_extents": 1162,
    "class_staying_extents idle": 1163, "class_staying_extents no-room": 1164,
    "moved_pages_total": 1171, "moved_bytes_total": 1172, "moves_unplaced_total": 1173,
    "attaches_total": 1101, "detaches_total": 1102, "deaths_total": 1103, "kicked_total": 1104,
    "refused_attaches_total": 1105, "reclaimed_pages_total": 1106, "commands_total": 1107, "refusals_total": 1108,
    "rounds_total": 1109, "sleeps_total": 1110, "wakeups_total": 1111, "late_total": 1112, "rescues_total": 1113,
    "device_lost": 1, "timer_polls_total": 1114, "refusals_by_reason_total": 1115,
    "model_bytes bound": (1054 + 1301 - 1302 - 1141) * 2 * 1011, "model_bytes reserved": 1302 * 2 * 1011,
    "model_bytes managed": 1141 * 2 * 1011, "model_bytes quarantined": -1301 * 2 * 1011,
    "model_prefill_tokens_total": 1211, "model_step_tokens_total": 1212, "model_pages_taken_total": 1213,
    "model_pages_returned_total": 1214, "model_pages_scrubbed_total": 1215, "model_pages_moved_total": 1216,
    "model_pages_yielded_total": 1217, "model_begins_admitted_total": 1221, "model_begins_waited_total": 1222,
    "model_begins_refused_total": 1227, "model_takes_admitted_total": 1224, "model_takes_waited_total": 1225,
    "model_takes_refused_total": 1228, "model_prepare_seconds_count": 15, "model_step_seconds_count": 1233,
    "model_wait_seconds_count": 1235,
}


def at(page, path):
    for key in path.split("."):
        page = page[int(key)] if key.isdigit() else page[key]
    return page


class Fields(unittest.TestCase):
    def check(self, got_and_wanted):
        """Ages have all grown by the same since the page was written; all else is as it was."""
        late = []
        for name, got, want in got_and_wanted:
            if name.endswith("_ms"):
                late.append(got / 1000 - want / 1000)
            elif name.endswith("_seconds"):
                late.append(got - want)
            else:
                self.assertEqual(got, want, name)
        self.assertTrue(min(late) >= 0 and max(late) - min(late) < 0.5, late)

    def test_json(self):
        with Fixture("distinct") as f:
            page = f.json("--request", "--map", "--events")
        self.check([(path, at(page, path), want) for path, want in JSON.items()])

    def test_prometheus(self):
        with Fixture("distinct") as f:
            samples, _ = prometheus(f.status("--prometheus").stdout)
        seen = []
        for name, want in METRICS.items():
            metric, _, state = name.partition(" ")
            found = [v for (n, labels), v in samples.items()
                     if n == f"swakv_{metric}" and (not state or state in [v for k, v in labels if k in ("state", "reason")])]
            self.assertEqual(len(found), 1, (name, found))
            seen.append((name, found[0], want))
        self.check(seen)

    def test_buckets_are_cumulative(self):
        """What is at most a bound is in its bucket, the last one has all; the sum is in seconds."""
        with Fixture("distinct") as f:
            samples, types = prometheus(f.status("--prometheus").stdout)
        self.assertEqual(types["swakv_model_prepare_seconds"], "histogram")
        bucket = {dict(labels)["le"]: v for (n, labels), v in samples.items() if n == "swakv_model_prepare_seconds_bucket"}
        self.assertEqual(len(bucket), 25)
        self.assertEqual(list(bucket)[0], "0.000008192")
        self.assertEqual(bucket["0.000008192"], 3)
        self.assertEqual(bucket["0.000016384"], 7)
        self.assertEqual(bucket["68.719476736"], 7)
        self.assertEqual(bucket["+Inf"], 15)
        self.assertEqual(find(samples, "swakv_model_prepare_seconds_sum"), 0.001231)

    def test_no_metric_is_forgotten(self):
        with Fixture("distinct") as f:
            samples, _ = prometheus(f.status("--prometheus").stdout)
        others = {"up", "status", "info", "start_time_seconds", "thread_heartbeat_age_seconds", "thread_stuck",
                  "snapshot_age_seconds", "invariant_holds", "session_info", "session_poisoned"}
        others |= {f"model_{n}_seconds_{part}" for n in ("prepare", "step", "wait") for part in ("bucket", "sum")}
        known = {name.partition(" ")[0] for name in METRICS} | others
        self.assertEqual({n.removeprefix("swakv_") for n, _ in samples} - known, set())


if __name__ == "__main__":
    unittest.main()
