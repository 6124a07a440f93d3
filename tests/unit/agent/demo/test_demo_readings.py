"""Numbers out of the output of system commands of several kinds."""

import pytest

from sandbur.agent.models.demo.diagnosis import DISK, FOLDERS, LOAD, WEB, Probe

CURL = "== listed\n/usr/bin/curl\n"
SS = "LISTEN 0 9 0.0.0.0:80 0.0.0.0:*\n"


def facts(probe: Probe, output: str) -> list[str]:
    return [fact for fact, _ in probe.read(output)]


def problems(probe: Probe, output: str) -> list[str]:
    return [problem for _, problem in probe.read(output) if problem]


@pytest.mark.parametrize(
    ("line", "load"),
    [
        ("0.52 0.58 0.59 1/389 12345", "0.52"),
        (" 10:00:00 up 1 day, 2 users,  load average: 1,25, 0,58, 0,59", "1.25"),
        ("10:00  up 1 day, 2 users, load averages: 2.50 2.00 1.50", "2.50"),
    ],
)
def test_the_load_comes_from_proc_or_uptime(line: str, load: str) -> None:
    assert facts(LOAD, f"{line}\ncores: 4\n")[0].startswith(f"load {load} over the last minute on 4 cores")
    assert facts(LOAD, "sh: uptime: not found\ncores: 4\n") == []


def test_processes_that_have_just_started_are_left_out() -> None:
    text = (
        "  PID %CPU %MEM     ELAPSED COMMAND\n"
        "    9  300  0.0       00:00 ps\n"
        "   10 99.0  1.0       00:59 python\n"
        "   42 12,5  3.1       01:00 my server\n"
        "   43  1.0  0.0    10:00:00 b\n"
    )
    assert facts(LOAD, text) == ["busiest process my server (pid 42) with 12.5 % CPU and 3.1 % memory"]
    assert "init (pid 1)" in facts(LOAD, "    1  0.0  0.1 12-03:04:05 init\n")[0]


def test_disks_are_the_real_ones() -> None:
    text = (
        "Filesystem 1024-blocks Used Available Capacity Mounted on\n"
        "/dev/sda1 1000 900 100 88% /\n"
        "tmpfs 1000 999 1 99% /run\n"
        "/dev/loop3 50 50 0 100% /snap/x\n"
        "/dev/sdb1 2000 100 1900 5% /mnt/my disk\n"
    )
    assert facts(DISK, text) == ["fullest: / at 88 %, 0 MB free"]
    assert facts(DISK, text.replace("1900 5%", "99999 89%"))[0].startswith("fullest: /mnt/my disk")


@pytest.mark.parametrize(
    ("listing", "ports"),
    [
        (
            "State  Recv-Q Send-Q Local Address:Port Peer Address:PortProcess\n"
            "LISTEN 0      128    0.0.0.0:80         0.0.0.0:*\n"
            "LISTEN 0      128    127.0.0.53%lo:53   0.0.0.0:*\n"
            "LISTEN 0      128    [::]:80            [::]:*\n"
            "LISTEN 0      128    10.0.0.5:8080      0.0.0.0:*\n",
            "53, 80, 8080",
        ),
        ("tcp        0      0 0.0.0.0:22    0.0.0.0:*    LISTEN\ntcp6 0 0 :::443 :::* LISTEN\n", "22, 443"),
    ],
)
def test_listeners_come_from_ss_or_netstat(listing: str, ports: str) -> None:
    assert facts(WEB, listing + CURL)[0] == f"listening TCP ports: {ports}"


def test_a_listener_is_asked_where_it_listens() -> None:
    output = "LISTEN 0 9 10.0.0.5:8080 0.0.0.0:*\nLISTEN 0 9 [::]:443 [::]:*\n" + CURL
    command = WEB.follow_up(WEB.title, output)
    assert "http://10.0.0.5:8080/" in command
    assert "https://127.0.0.1:443/" in command


def test_garbage_gives_nothing_at_all() -> None:
    for text in ("", "== load", "== load\nx\n== cores\ny", "\x00\xff", "== a\n" * 1000, "9" * 5000):
        for probe in (LOAD, DISK, FOLDERS, WEB):
            assert facts(probe, text) == []


def test_a_machine_in_trouble_is_called_so() -> None:
    output = (
        "9.00 8.00 7.00 3/389 12345\ncores: 4\n"
        "MemTotal: 1000000 kB\nMemAvailable: 50000 kB\n"
        "  PID %CPU %MEM COMMAND\n  7 99.0 50.0 2-00:00:00 java\n"
    )
    assert "load 9.00 over the last minute on 4 cores (2.25 per core)" in facts(LOAD, output)
    assert "48 of 976 MB memory available (5 %)" in facts(LOAD, output)
    assert len(problems(LOAD, output)) == 3


def test_a_full_disk_is_called_so() -> None:
    assert problems(DISK, "/dev/sda1 1000 950 50 95% /\n") == ["/ is 95 % full"]


def test_nobody_listening_is_a_problem_and_nothing_is_timed() -> None:
    output = f"State Recv-Q\n{CURL}"
    assert WEB.follow_up(WEB.title, output) == ""
    assert problems(WEB, output) == ["no web server listens on this machine"]


def test_databases_and_mail_are_not_spoken_to() -> None:
    output = "".join(f"LISTEN 0 9 0.0.0.0:{p} 0.0.0.0:*\n" for p in (22, 25, 5432, 6379))
    assert WEB.follow_up(WEB.title, output + CURL) == ""


def test_without_curl_nothing_is_timed() -> None:
    output = f"{SS}== listed\n"
    assert WEB.follow_up(WEB.title, output) == ""
    assert facts(WEB, output) == ["listening TCP ports: 80", "nothing was timed"]


def test_where_nothing_lists_listeners_an_address_is_timed_all_the_same() -> None:
    asked = "http://127.0.0.1:81/"
    assert "-m 10 -w" in WEB.follow_up(f"{WEB.title}: {asked}", "/usr/bin/curl\n")
    timed = f"/usr/bin/curl\n== {asked} 200 0.0 0.001 0.001\n"
    assert facts(WEB, timed) == [f"{asked} answered 200 in 0.001 s (first byte after 0.001 s)"]


def test_timings_name_what_is_slow() -> None:
    silent = "== http://127.0.0.1:81/ 000 0.0 0.0 0.001\n"
    output = f"{SS}{CURL}== http://127.0.0.1:80/ 200 0.700 2.500 2.600\n{silent}"
    assert "http://127.0.0.1:80/ answered 200 in 2.600 s (first byte after 2.500 s)" in facts(WEB, output)
    assert "http://127.0.0.1:81/ gave no HTTP answer (0.001 s)" in facts(WEB, output)
    (problem,) = problems(WEB, output)
    assert len(problem.split("; ")) == 2
    assert problems(WEB, f"{SS}{CURL}{silent}") == ["no address answers HTTP"]
