#!/usr/bin/env python3
# SPDX-License-Identifier: Apache-2.0
"""Read a trace of nixlrun with Perfetto's own classes (the package perfetto of PyPI), check its form,
and print it line by line, for test_trace.sh:

    process NAME
    thread PROCESS NAME
    slice TRACK DEPTH NAME [KEY=VALUE]...     in the order of time on that track
    instant TRACK NAME [KEY=VALUE]...
    arrow FROM-TRACK FROM-NAME TO-TRACK TO-NAME
    dangling N                                arrows of which one end is missing
    span N                                    whole seconds from the first event to the last one

TRACK is "rank 0", and "rank 0/operations 1" for a track below; blanks in names are kept. Times must not go
backwards on a track, slices must nest and end, and an arrow must not end before it begins.

Usage: read_trace.py FILE
"""
import sys

from perfetto.protos.perfetto.trace.perfetto_trace_pb2 import Trace, TrackEvent


class Reader:
    def __init__(self):
        self.names = {'event_categories': {}, 'event_names': {}, 'debug_annotation_names': {}}
        self.processes, self.threads, self.tracks = {}, {}, {}
        self.pids = {}
        self.open, self.last, self.flows = {}, {}, {}
        self.first = 1 << 64
        self.lines = []

    def intern(self, data):
        for kind, known in self.names.items():
            for entry in getattr(data, kind):
                assert entry.iid not in known, f'{kind} {entry.iid} is written twice'
                known[entry.iid] = entry.name

    def describe(self, track):
        assert track.uuid not in self.tracks, f'track {track.uuid} is written twice'
        if track.HasField('process'):
            name = track.process.process_name.split(' (')[0]
            assert track.process.pid not in self.pids, f'pid {track.process.pid} is used twice'
            self.pids[track.process.pid] = name
            self.lines.append(f'process {track.process.process_name}')
        elif track.HasField('thread'):
            name = self.pids[track.thread.pid]
            self.lines.append(f'thread {name} {track.thread.thread_name}')
        else:
            name = f'{self.tracks[track.parent_uuid]}/{track.name}'
        self.tracks[track.uuid] = name

    def told(self, event):
        texts = []
        for note in event.debug_annotations:
            value = note.string_value if note.HasField('string_value') else note.int_value
            texts.append(f'{self.names["debug_annotation_names"][note.name_iid]}={value}')
        return ' '.join(texts)

    def take(self, event, ns):
        track = event.track_uuid
        where = self.tracks[track]
        assert ns >= self.last.get(track, 0), f'{where}: {ns} after {self.last[track]}'
        self.last[track] = ns
        self.first = min(self.first, ns)
        stack = self.open.setdefault(track, [])
        if event.type == TrackEvent.TYPE_SLICE_END:
            assert stack, f'{where}: an end without a beginning'
            stack.pop()
            return
        name = self.names['event_names'][event.name_iid]
        assert self.names['event_categories'][event.category_iids[0]]
        if event.type == TrackEvent.TYPE_SLICE_BEGIN:
            self.lines.append(f'slice {where} {len(stack)} {name} {self.told(event)}'.rstrip())
            stack.append(name)
        else:
            assert event.type == TrackEvent.TYPE_INSTANT
            self.lines.append(f'instant {where} {name} {self.told(event)}'.rstrip())
        for flow in event.flow_ids:
            self.flows.setdefault(flow, []).append((ns, 0, where, name))
        for flow in event.terminating_flow_ids:
            self.flows.setdefault(flow, []).append((ns, 1, where, name))

    def end(self):
        for track, stack in self.open.items():
            assert not stack, f'{self.tracks[track]}: {stack} never end'
        n_dangling = 0
        for points in self.flows.values():
            ends = [point for point in points if point[1] == 1]
            starts = sorted(point for point in points if point[1] == 0)
            if not ends or not starts:
                n_dangling += 1
                continue
            assert len(ends) == 1, f'an arrow with ends {ends}'
            assert starts[-1][0] <= ends[0][0], f'{starts[-1]} is after {ends[0]}'
            self.lines.append(f'arrow {starts[0][2]} {starts[0][3]} -> {ends[0][2]} {ends[0][3]}')
        self.lines.append(f'dangling {n_dangling}')
        self.lines.append(f'span {(max(self.last.values()) - self.first) // 10**9}')


def main(path):
    trace = Trace()
    with open(path, 'rb') as file:
        trace.ParseFromString(file.read())
    reader = Reader()
    for number, packet in enumerate(trace.packet):
        assert packet.trusted_packet_sequence_id == 1
        assert packet.sequence_flags == (1 if number == 0 else 2)
        if packet.HasField('interned_data'):
            reader.intern(packet.interned_data)
        if packet.HasField('track_descriptor'):
            reader.describe(packet.track_descriptor)
        else:
            reader.take(packet.track_event, packet.timestamp)
    reader.end()
    print('\n'.join(reader.lines))


main(sys.argv[1])
