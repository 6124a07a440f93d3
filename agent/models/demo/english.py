"""The demo in English."""

from .phrases import Phrases, Understood

_PATH = r"[`'\"]?(?P<path>[^\s`'\"]+)[`'\"]?"
_UNKNOWN = (
    "{what} was interrupted: it may or may not have taken effect, and I have not run it again. "
    "Check its effect before you repeat it."
)

ENGLISH = Phrases(
    understood=Understood(
        word=r"[A-Za-z]+",
        foreign="",
        polite=r"(?:please\s+)?",
        requests=(
            ("run", r"(?:!|(?:run|execute)\s+(?:the\s+command\s+)?)(?P<command>.*\S.*)"),
            ("write", rf"(?:create|write)\s+(?:a\s+)?file\s+{_PATH}(?:\s+with\s+(?P<content>.+))?"),
            ("write", rf"write\s+(?P<content>.+)\s+(?:to|into)\s+(?:the\s+)?(?:file\s+)?{_PATH}"),
            ("edit", rf"replace\s+(?P<old>.+?)\s+(?:with|by)\s+(?P<new>.+?)\s+in\s+{_PATH}"),
            ("search", r"(?:search\s+for|grep(?:\s+for)?)\s+(?P<pattern>\S.*)"),
            ("read", rf"(?:read|cat|(?:read|show)\s+(?:me\s+)?(?:the\s+)?file)\s+{_PATH}"),
            ("list", r"what\b.{0,200}\b(?:in|files)\b.{0,200}\b(?:folder|project|here)\b.*"),
            ("list", r"(?:list the files|ls)\W*"),
        ),
        greeting=r"\W*(hi|hello|hey|good (morning|day|evening)|thanks?( you)?|bye)\b.{0,20}",
        help="",
        trouble=r"\b(slow|hangs?|timeouts?|times? out|takes (too|so) long|down|unreachable|full|disk|memory"
        r"|cpu|load)\b",
        web=r"https?://|\b(web|web ?site|site|server|page|shop|api|http|url)s?\b",
        disk=r"\b(disk|disc|storage|space|partition|drive)s?\b",
    ),
    hello="Hello! ",
    cannot="",
    how_to_get_a_model="I am the demo: a fixed program and no language model. For a real one run "
    "`export ANTHROPIC_API_KEY=...` or `export OPENAI_API_KEY=...`, or start Ollama; then "
    "`sandbur -m PROVIDER/MODEL`.",
    abilities="""\
I can do a few fixed things, with real tools on this machine:
- "my web site is slow, find out why" (add an address if you like), "the disk is full", "this machine is slow"
- "what is in this folder", "read FILE", "search for TEXT"
- "create file NAME with TEXT", "replace A with B in FILE"
- "run COMMAND" or "!COMMAND"
""",
    plan_first="This takes several measurements, so I make a plan first.",
    tool_missing="This needs the tool {tool}, which this session does not offer.",
    nothing_to_summarize="Nothing important happened.",
    no_result="There is no result to report.",
    silent="{what} is done; it printed nothing.",
    more_lines="... {count} more lines",
    outcomes={
        "ok": "{what} gave:{quoted}",
        "error": "{what} failed.{quoted}",
        "timeout": "{what} ran into its time limit.{quoted}",
        "denied": "{what} was not run. {content}",
        "unknown": _UNKNOWN,
        "interrupted": _UNKNOWN,
    },
    topics={"load": "Load", "web": "Web", "disk": "Disk", "folders": "Folders"},
    titles={
        "load": "Measure CPU load, memory and the busiest process",
        "web": "Find out who listens for web requests and time the answers",
        "disk": "Check how full the disks are",
        "folders": "Find the largest folders below this one",
    },
    no_program="The demo has no program for: {title}",
    this_step="this step",
    run_again="It is unknown whether that command ran. It only reads, so I run it again.",
    troubles={
        "denied": "A command was denied: {line}",
        "timeout": "A command ran into its time limit.",
        "unknown": "Whether a command ran is unknown.",
        "interrupted": "Whether a command ran is unknown.",
    },
    load="load {load:.2f} over the last minute on {cores} cores ({share:.2f} per core)",
    overloaded="more work than cores: {share:.2f} runnable tasks per core",
    memory="{available} of {total} MB memory available ({share:.0f} %)",
    little_memory="only {share:.0f} % of the memory is available",
    process="{name} (pid {pid})",
    busiest="busiest process {process} with {cpu:.1f} % CPU and {memory:.1f} % memory",
    busy_core="{process} keeps a core busy at {cpu:.1f} %",
    fullest="fullest: {mount} at {used} %, {free} MB free",
    full="{mount} is {used} % full",
    folder="this folder holds {size} MB",
    largest="; largest inside: {folders}",
    folder_size="{name} {size} MB",
    ports="listening TCP ports: {ports}",
    no_ports="none",
    no_listener="no web server listens on this machine",
    not_timed="nothing was timed",
    nothing_answered="nothing answered",
    no_answer_anywhere="no address answers HTTP",
    no_answer="{url} gave no HTTP answer ({total:.3f} s)",
    answered="{url} answered {status} in {total:.3f} s (first byte after {first_byte:.3f} s)",
    fails="{url} fails with {status}",
    slow_lookup="looking up the name of {url} takes {lookup:.3f} s",
    slow_first_byte="{url} needs {first_byte:.3f} s until its first byte",
    comma=", ",
    semicolon="; ",
    colon=": ",
    measured="{topic}: {facts}. {trouble}",
    problem_mark=" Problem: ",
    problems="{problems}.",
    not_measured="{topic}: not measured. {why}",
    unreadable="The command printed nothing readable. {line}",
    likely="Most likely the cause: {problems}",
    also=" Also: ",
    unexplained="Nothing that was measured on this machine explains it. What was not looked at: the "
    "application's own logs, its database, and the network between it and its users.",
    unmeasured="I could not measure anything, so I cannot say what the cause is.",
    failed_mark=" (failed)",
)
