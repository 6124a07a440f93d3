"""The demo answers, plans and summarizes in the language that it was asked in."""

import contextlib
import re
from pathlib import Path
from string import Formatter

import pytest
from support.models.demo_walk import Walk, answer_message, ask, call, shell

from sandbur.actions.turn.plan.decision_tools import DECISION_TOOLS, PLAN_FINISHED
from sandbur.agent.models.demo.chinese import CHINESE
from sandbur.agent.models.demo.english import ENGLISH
from sandbur.agent.models.demo.languages import LANGUAGES
from sandbur.agent.models.demo.phrases import Phrases
from sandbur.state.conversation.messages import (
    Outcome,
    ToolUse,
    assistant_message,
    person_message,
    runtime_message,
)
from sandbur.state.conversation.transcript import Transcript

SLOW_SITE = "我的网站响应很慢，帮我看看怎么回事。"


def chinese_share(text: str) -> float:
    """Return the share of Chinese letters among them and words of other letters, outside of code."""
    prose = re.sub(r"`[^`]*`|^    .*$|https?://\S+", "", text, flags=re.MULTILINE)
    letters, words = len(re.findall(r"[\u4e00-\u9fff]", prose)), len(re.findall(r"[A-Za-z]{2,}", prose))
    return letters / max(letters + words, 1)


@pytest.mark.parametrize(
    ("text", "tool", "arguments"),
    [
        ("运行 ls -la", "run_shell_command", {"command": "ls -la"}),
        ("请帮我运行命令 `df -h`。", "run_shell_command", {"command": "df -h"}),
        ("执行一下 uname -a", "run_shell_command", {"command": "uname -a"}),
        ("运行 echo 你好", "run_shell_command", {"command": "echo 你好"}),
        ("读取 README.md", "read_file", {"path": "README.md"}),
        ("请读一下README.md的内容", "read_file", {"path": "README.md"}),
        ("打开文件 Makefile", "read_file", {"path": "Makefile"}),
        ("看看 src/a.py 里写了什么？", "read_file", {"path": "src/a.py"}),
        ("查看文件 说明", "read_file", {"path": "说明"}),
        ("读取 笔记.txt", "read_file", {"path": "笔记.txt"}),
        ("创建文件 a.txt，内容是 你好，世界", "write_file", {"path": "a.txt", "content": "你好，世界\n"}),
        ("新建一个文件“笔记.txt”，写上“第一行”", "write_file", {"path": "笔记.txt", "content": "第一行\n"}),
        (
            "帮我创建一个名为 a.txt 的文件，内容为 hello",
            "write_file",
            {"path": "a.txt", "content": "hello\n"},
        ),
        ("创建文件 empty.txt", "write_file", {"path": "empty.txt", "content": ""}),
        ("把“你好”写入 a.txt", "write_file", {"path": "a.txt", "content": "你好\n"}),
        ("把 a.txt 里的 old 改成 new", "edit_file", {"path": "a.txt", "old": "old", "new": "new"}),
        ("在 a.txt 中把“旧”替换为“新”。", "edit_file", {"path": "a.txt", "old": "旧", "new": "新"}),
        ("搜索 TODO (x)", "grep", {"pattern": "TODO\\ \\(x\\)"}),
        ("在项目中搜索“登录”", "grep", {"pattern": "登录"}),
        ("这个文件夹里有什么？", "list_directory", {"path": "."}),
        ("看看当前目录下有哪些文件", "list_directory", {"path": "."}),
        ("列出所有文件", "list_directory", {"path": "."}),
        (SLOW_SITE, "start_plan", {"goal": SLOW_SITE}),
        ("磁盘满了", "start_plan", {"goal": "磁盘满了"}),
        ("这台机器很慢", "start_plan", {"goal": "这台机器很慢"}),
        ("看看CPU负载", "start_plan", {"goal": "看看CPU负载"}),
        ("运行 MySQL 很慢怎么办", "start_plan", {"goal": "运行 MySQL 很慢怎么办"}),
        ("我的website很slow", "start_plan", {"goal": "我的website很slow"}),
        ("!ls 文件夹", "run_shell_command", {"command": "ls 文件夹"}),
    ],
)
async def test_a_chinese_request_becomes_the_call_it_asks_for(
    text: str, tool: str, arguments: dict[str, str]
) -> None:
    reply = await ask(Transcript.of(person_message(text)))
    assert call(reply) == (tool, arguments)
    assert not reply.message.text or chinese_share(reply.message.text) > 0.8


@pytest.mark.parametrize("text", ["你好", "您好！", "你能做什么？", "帮助", "写一首诗", "谢谢"])
async def test_chinese_talk_is_answered_in_chinese(text: str) -> None:
    reply = await ask(Transcript.of(person_message(text)))
    assert not reply.message.tool_uses
    assert chinese_share(reply.message.text) > 0.8
    assert "不是语言模型" in reply.message.text
    assert "我的网站响应很慢" in reply.message.text


@pytest.mark.parametrize("text", ["写一首诗", "今天天气怎么样", "请把这篇文章翻译成英文"])
async def test_what_it_cannot_do_is_refused_politely(text: str) -> None:
    reply = await ask(Transcript.of(person_message(text)))
    assert reply.message.text.startswith("抱歉，这件事我做不到。")


@pytest.mark.parametrize("text", ["你好", "你能做什么？", "谢谢", "怎么用"])
async def test_who_only_greets_or_asks_for_help_is_not_refused(text: str) -> None:
    reply = await ask(Transcript.of(person_message(text)))
    assert "抱歉" not in reply.message.text


@pytest.mark.parametrize(
    "text",
    [
        "hello",
        "explain the word 你好 to me in a sentence",
        "サイトについて教えて",
        "안녕하세요",
        "12 + 3",
        "",
    ],
)
async def test_everything_else_is_answered_in_english(text: str) -> None:
    reply = await ask(Transcript.of(person_message(text)))
    assert "I am the demo" in reply.message.text
    assert chinese_share(reply.message.text) == 0


async def test_the_slow_site_is_looked_into_with_real_measurements_in_chinese() -> None:
    walk = await Walk(shell).of(SLOW_SITE)
    (plan,) = walk.plans
    assert plan == [CHINESE.titles[topic] for topic in ("load", "web", "disk")]
    assert [status for status, _ in walk.steps] == ["completed"] * 3
    assert all(chinese_share(text) > 0.6 for text in [*plan, *(summary for _, summary in walk.steps)])
    load, cores = walk.outputs[0].split()[0], re.findall(r"cores: (\d+)", walk.outputs[0])[0]
    assert f"最近一分钟的平均负载为 {float(load):.2f}，共 {cores} 个核心" in walk.steps[0][1]
    for _, summary in walk.steps:
        assert summary.partition(CHINESE.problem_mark)[0] in walk.answer
    assert chinese_share(walk.answer) > 0.6
    assert "不是语言模型" in walk.answer
    assert len(set(walk.call_ids)) == len(walk.call_ids)


@pytest.mark.parametrize(
    ("text", "topics"),
    [
        ("磁盘满了", ["磁盘", "文件夹"]),
        ("硬盘空间不够，快满了", ["磁盘", "文件夹"]),
        ("这台机器很卡", ["负载", "磁盘"]),
        ("服务器打不开了", ["负载", "网站", "磁盘"]),
        ("我的 web site 很慢", ["负载", "网站", "磁盘"]),
    ],
)
async def test_each_chinese_goal_has_its_measurements(text: str, topics: list[str], tmp_path: Path) -> None:
    with contextlib.chdir(tmp_path):
        walk = await Walk(shell).of(text)
    assert [summary.partition("：")[0] for _, summary in walk.steps] == topics


async def test_an_address_ends_where_the_chinese_begins() -> None:
    walk = await Walk(lambda use: ("denied", "Denied.")).of("看看 http://127.0.0.1:81/shop很慢，怎么回事")
    assert f"{CHINESE.titles['web']}：http://127.0.0.1:81/shop" in walk.plans[0]


async def test_a_denied_step_is_told_in_chinese_and_not_planned_again() -> None:
    def deny_the_disk(use: ToolUse) -> tuple[Outcome, str]:
        return ("denied", "Denied by the user.") if "df -Pk" in use.arguments else shell(use)

    walk = await Walk(deny_the_disk).of("磁盘满了")
    titles = CHINESE.titles
    assert walk.plans == [[titles["disk"], titles["folders"]], [titles["folders"]]]
    assert "磁盘：没有测到。有一条命令被拒绝了：Denied by the user." in walk.answer
    assert "（失败）" in walk.answer


async def test_nothing_measured_is_no_verdict_in_chinese() -> None:
    walk = await Walk(lambda use: ("unknown", "x")).of("这台机器很慢")
    assert "我什么都没有测到" in walk.answer


@pytest.mark.parametrize("outcome", ["ok", "error", "timeout", "denied", "unknown", "interrupted"])
@pytest.mark.parametrize("content", ["", "file.txt"])
async def test_every_result_is_told_in_chinese(outcome: Outcome, content: str) -> None:
    history = Transcript.of(person_message("运行 make"))
    reply = await ask(history)
    reply = await ask(
        history.append(reply.message, *answer_message(reply.message, lambda use: (outcome, content)))
    )
    assert chinese_share(reply.message.text.replace("file.txt", "")) > 0.9


async def test_a_command_without_words_is_answered_in_the_language_of_the_conversation() -> None:
    history = Transcript.of(person_message("你好"))
    history = history.append((await ask(history)).message, person_message("!true"))
    reply = await ask(history)
    reply = await ask(history.append(reply.message, *answer_message(reply.message, lambda use: ("ok", ""))))
    assert reply.message.text == "`true` 已完成，没有输出。"


async def test_the_newest_language_counts() -> None:
    history = Transcript.of(person_message("你好"))
    history = history.append((await ask(history)).message, person_message("hello"))
    reply = await ask(history)
    assert reply.message.text.startswith("Hello! ")
    history = history.append(reply.message, person_message("谢谢"))
    assert (await ask(history)).message.text.startswith("你好！")


async def test_an_attached_file_does_not_choose_the_language() -> None:
    text = "写一首诗 @a.py\n\n" + '<file path="a.py">\n' + "import this\n" * 50 + "</file>"
    assert chinese_share((await ask(Transcript.of(person_message(text)))).message.text) > 0.8


async def test_a_missing_tool_is_told_in_chinese() -> None:
    history = Transcript.of(person_message("运行 ls"))
    reply = await ask(history, specs=DECISION_TOOLS)
    assert reply.message.text.startswith("这需要工具 run_shell_command")


async def test_a_step_of_another_model_is_refused_in_chinese() -> None:
    child = Transcript.of(runtime_message("Step 1 of 1: 粉刷房子\n\nGoal: x"))
    _, arguments = call(await ask(Transcript.of(person_message("网站很慢")), child))
    assert arguments == {"status": "failed", "summary": "演示程序不会做这一步：粉刷房子"}


async def test_the_language_survives_a_compression() -> None:
    pinned = "The user's last message: 磁盘满了\nMode: yolo\nGoal: 磁盘满了"
    summary = f"{pinned}\n\nSummary of what came before:\nassistant: Step 1 completed: 磁盘：用得最满的是 /。"
    history = Transcript.of(runtime_message(summary))
    _, arguments = call(await ask(history, forced="submit_plan"))
    assert arguments == {"steps": [{"description": CHINESE.titles["folders"]}]}
    ended = assistant_message("Step 1 completed: 文件夹：当前文件夹共 1 MB。", "runtime")
    report = await ask(history.append(ended, runtime_message(PLAN_FINISHED)))
    assert "文件夹：当前文件夹共 1 MB。" in report.message.text
    assert chinese_share(report.message.text) > 0.8


def templates(phrases: Phrases) -> dict[str, str]:
    """Return every text of a table by its place."""
    found: dict[str, str] = {}
    for name, value in phrases._asdict().items():
        if isinstance(value, str):
            found[name] = value
        elif name != "understood":
            found |= {f"{name}.{key}": text for key, text in value.items()}
    return found


def blanks(template: str) -> set[tuple[str | None, str | None]]:
    return {(name, spec) for _, name, spec, _ in Formatter().parse(template) if name is not None}


@pytest.mark.parametrize("phrases", LANGUAGES, ids=["English", "Chinese"])
def test_every_template_of_a_language_takes_the_values_of_the_english_one(phrases: Phrases) -> None:
    english, others = templates(ENGLISH), templates(phrases)
    assert set(english) == set(others)
    assert {place: blanks(text) for place, text in others.items()} == {
        place: blanks(text) for place, text in english.items()
    }


def test_no_step_is_called_as_one_of_another_kind_or_language() -> None:
    titles = [title for phrases in LANGUAGES for title in phrases.titles.values()]
    assert not [(a, b) for a in titles for b in titles if a != b and a.startswith(b)]


@pytest.mark.timeout(60)
@pytest.mark.parametrize(
    "text",
    ["这个文件夹里有什么" + " " * 200_000 + "x", "what " + "in " * 60_000, "请" * 200_000, "能不能" * 60_000,
     "把x写入" * 50_000, "看看" + "a." * 100_000 + "，", "创建文件" + "a" * 200_000 + " 的", "x\n" * 100_000],
    ids=lambda text: text[:10].strip(),
)  # fmt: skip
async def test_a_long_text_is_understood_in_a_time_that_grows_with_its_length(text: str) -> None:
    # With its square, the limit would be passed several times over.
    assert (await ask(Transcript.of(person_message(text)))).message.blocks
