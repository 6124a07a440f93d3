"""Numbers out of the output of system commands of several kinds."""

from sandbur.agent.models.demo.probes import (
    DISK,
    LOAD,
    WEB,
    Disk,
    Listener,
    Process,
    load_average,
    read_disks,
    read_listeners,
    read_processes,
    read_timings,
)


def test_the_load_comes_from_proc_or_uptime() -> None:
    assert load_average("0.52 0.58 0.59 1/389 12345\n") == 0.52
    assert load_average(" 10:00:00 up 1 day, 2 users,  load average: 1,25, 0,58, 0,59\n") == 1.25
    assert load_average("10:00  up 1 day, 2 users, load averages: 2.50 2.00 1.50\n") == 2.5
    assert load_average("sh: uptime: not found") is None


def test_processes_that_have_just_started_are_left_out() -> None:
    text = (
        "  PID %CPU %MEM     ELAPSED COMMAND\n"
        "    9  300  0.0       00:00 ps\n"
        "   10 99.0  1.0       00:59 python\n"
        "   42 12,5  3.1       01:00 my server\n"
        "   43  1.0  0.0    10:00:00 b\n"
        "    1  0.0  0.1 12-03:04:05 init\n"
    )
    assert read_processes(text)[0] == Process(42, 12.5, 3.1, "my server")
    assert [process.pid for process in read_processes(text)] == [42, 43, 1]


def test_disks_are_the_real_ones_each_once() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "/dev/sda1 1000 900 100 90% /\n"
        "/dev/sda1 1000 900 100 90% /bind\n"
        "tmpfs 1000 999 1 99% /run\n"
        "/dev/loop3 50 50 0 100% /snap/x\n"
        "/dev/sdb1 2000 100 1900 5% /mnt/my disk\n"
    )
    assert read_disks(text) == [Disk("/", 1000, 100, 90), Disk("/mnt/my disk", 2000, 1900, 5)]


def test_listeners_come_from_ss_netstat_or_the_table() -> None:
    ss = (
        "State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n"
        "LISTEN 0      128    0.0.0.0:80         0.0.0.0:*\n"
        "LISTEN 0      128    127.0.0.53%lo:53   0.0.0.0:*\n"
        "LISTEN 0      128    [::]:80            [::]:*\n"
        "LISTEN 0      128    10.0.0.5:8080      0.0.0.0:*\n"
    )
    expected = [
        Listener("127.0.0.1", 53),
        Listener("127.0.0.1", 80),
        Listener("10.0.0.5", 8080),
    ]
    assert read_listeners(ss) == expected
    netstat = "tcp        0      0 0.0.0.0:22    0.0.0.0:*    LISTEN\ntcp6 0 0 :::443 :::* LISTEN\n"
    assert [listener.port for listener in read_listeners(netstat)] == [22, 443]
    table = "  sl  local_address rem_address   st\n   0: 0100007F:1F90 00000000:0000 0A 00000000:0\n"
    table += "   1: 0100007F:1F91 00000000:0000 01 00000000:0\n"
    assert read_listeners(table) == [Listener("127.0.0.1", 8080)]


def test_garbage_gives_nothing_at_all() -> None:
    for text in ("", "== load", "== load\nx\n== cores\ny", "\x00\xff", "== a\n" * 1000, "9" * 5000):
        assert load_average(text) is None
        assert read_disks(text) == []
        assert read_listeners(text) == []
        assert read_timings(text) == []
        assert LOAD.conclude([text]).facts == ()
        assert DISK.conclude([text]).facts == ()


def test_a_machine_in_trouble_is_called_so() -> None:
    output = (
        "== load\n9.00 8.00 7.00 3/389 12345\n== cores\n4\n"
        "== memory\nMemTotal: 1000000 kB\nMemAvailable: 50000 kB\nSwapTotal: 1000 kB\nSwapFree: 100 kB\n"
        "== processes\n  PID %CPU %MEM COMMAND\n  7 99.0 50.0 2-00:00:00 java\n"
    )
    finding = LOAD.conclude([output])
    assert "load 9.00 over the last minute on 4 cores (2.25 per core)" in finding.facts
    assert "48 of 976 MB memory available (5 %)" in finding.facts
    assert len(finding.problems) == 4


def test_a_full_disk_is_called_so() -> None:
    finding = DISK.conclude(
        ["== space\n/dev/sda1 1000 950 50 95% /\n== inodes\n/dev/sda1 1000 20 980 2% /\n"]
    )
    assert finding.problems == ("/ is 95 % full (space)",)


def test_nobody_listening_is_a_problem_and_nothing_is_timed() -> None:
    output = "== listeners\nState Recv-Q\n== servers\n== curl\n/usr/bin/curl\n"
    assert WEB.follow_up(WEB.title, output) is None
    assert WEB.conclude([output]).problems == ("no web server listens on this machine",)


def test_databases_and_mail_are_not_spoken_to() -> None:
    output = "== listeners\n" + "".join(f"LISTEN 0 9 0.0.0.0:{p} 0.0.0.0:*\n" for p in (22, 25, 5432, 6379))
    assert WEB.follow_up(WEB.title, f"{output}== servers\n== curl\n/usr/bin/curl\n") is None


def test_without_curl_nothing_is_timed() -> None:
    output = "== listeners\nLISTEN 0 9 0.0.0.0:80 0.0.0.0:*\n== servers\nnginx\n== curl\n"
    assert WEB.follow_up(WEB.title, output) is None
    assert "web server processes: nginx" in WEB.conclude([output]).facts


def test_timings_name_what_is_slow() -> None:
    first = "== listeners\nLISTEN 0 9 0.0.0.0:80 0.0.0.0:*\n== servers\n== curl\n/usr/bin/curl\n"
    timed = (
        "== http://127.0.0.1:80/ 200 0.700 0.800 2.500 2.600\n== http://127.0.0.1:81/ 000 0.0 0.0 0.0 0.001\n"
    )
    finding = WEB.conclude([first, timed])
    assert "http://127.0.0.1:80/ answered 200 in 2.600 s (first byte after 2.500 s)" in finding.facts
    assert "http://127.0.0.1:81/ gave no HTTP answer (0.001 s)" in finding.facts
    assert len(finding.problems) == 2
