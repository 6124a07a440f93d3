"""The demo in Chinese."""

from .phrases import Phrases, Understood

# The parts that patterns of requests are built from.
_OPEN, _CLOSE = r"[`'\"“‘「『]?", r"[`'\"”’」』]?"
_NAME = r"[^\s`'\"“”‘’「」『』，。；：！？]"
_PATH = rf"{_OPEN}(?P<path>{_NAME}+?){_CLOSE}"
_NO_URL = r"(?!\w+://)"
_ASCII_PATH = rf"{_OPEN}(?P<path>{_NO_URL}(?={_NAME}*?[\x21-\x7e]){_NAME}+?){_CLOSE}"
_DOTTED_PATH = rf"{_OPEN}(?P<path>{_NO_URL}(?={_NAME}*?[./]){_NAME}+?){_CLOSE}"
_GAP = r"[\s，,：:]*"
_END = r"[\s。．.！!？?吧呢吗]*"
_RUN = r"(?:运行|执行|運行|執行|跑)(?:一下)?(?:这个|这条)?(?:命令)?[\s：:]*"
_NO_QUESTION = r"(?!.*(?:怎么|为什么|为何|[很太好]慢))"
_CREATE = r"(?:创建|新建|建立|生成|写|建|創建)(?:一个|个)?"
_FILE = r"(?:文件|檔案)"
_CONTENT = rf"(?:{_GAP}里?面?(?:内容(?:是|为)?|写入|写上|写着|包含){_GAP}(?P<content>.+))?"
_TAKE = r"(?:把|将|將)\s*"
_INSIDE = r"\s*(?:这个)?(?:文件)?\s*(?:里面|里边|里|中|裡)\s*的?\s*"
_REPLACED = r"(?P<old>.+?)\s*(?:替换成|替换为|替換成|改成|改为|换成|換成)\s*(?P<new>.+?)。?"
_SAVE = r"\s*(?:写入|写到|写进|保存到|寫入)\s*(?:文件)?\s*"
_SEARCH = r"(?:搜索|查找|搜一下|搜|寻找|搜尋)(?:一下)?(?:文本|文字|字符串|内容)?"
_READ = r"(?:读取|读一下|读|打开|讀取|讀)(?:一下)?\s*"
_LOOK = r"(?:查看|看一看|看一下|看看|看|显示)(?:一下)?\s*"
_WHOLE = r"(?:\s*(?:这个)?文件)?(?:\s*(?:的内容|里面?写了什么|里面?有什么|的全文))?"
_FOLDER = r"(?:文件夹|目录|资料夹|資料夾|项目|工程|这里|这儿)(?:里面|下面|里|下|中|内)?"
_UNKNOWN = "{what} 被中断了：它可能已经生效，也可能没有。我没有再次运行它；重复之前请先检查它的结果。"

CHINESE = Phrases(
    understood=Understood(
        word=r"[\u3400-\u9fff]",
        foreign=r"[\u3041-\u30ff\uac00-\ud7af]",
        polite=r"(?:(?:请|請|麻烦|你|能不能|能否|可以|可否|能|帮我|幫我|帮忙|给我|一下)\s*+)*+",
        requests=(
            ("run", rf"{_RUN}`(?P<command>[^`]+)`{_END}"),
            ("run", rf"{_RUN}(?P<command>{_NO_QUESTION}[\x21-\x7e].*)"),
            ("write", rf"{_CREATE}(?:新的?)?{_FILE}{_GAP}{_PATH}{_CONTENT}"),
            ("write", rf"{_CREATE}(?:名为|叫做|叫)?{_GAP}{_PATH}\s*的[新空]?{_FILE}{_CONTENT}"),
            ("edit", rf"{_TAKE}{_PATH}{_INSIDE}{_REPLACED}"),
            ("edit", rf"在\s*{_PATH}{_INSIDE}{_TAKE}{_REPLACED}"),
            ("write", rf"{_TAKE}(?P<content>.+?){_SAVE}{_PATH}(?:\s*(?:文件)?(?:里面|里|中))?"),
            (
                "search",
                rf"(?:在\S{{0,8}}[里中下]\s*)?{_SEARCH}(?:[\s：:]+|(?=[\x21-\x7e“「]))(?P<pattern>\S.*)",
            ),
            ("read", rf"{_READ}(?:文件)?[\s：:]*{_ASCII_PATH}{_WHOLE}{_END}"),
            ("read", rf"(?:{_READ}|{_LOOK})文件[\s：:]*{_PATH}{_WHOLE}{_END}"),
            ("read", rf"{_LOOK}{_DOTTED_PATH}{_WHOLE}{_END}"),
            ("list", rf".{{0,200}}{_FOLDER}[都还]?[有是]些?(?:什么|哪些|啥)(?:东西|文件|内容)?{_END}"),
            (
                "list",
                rf"(?:列出|列一下|显示)\s*(?:所有|全部)?的?(?:当前|这个)?(?:目录|文件夹)?[里下中]?"
                rf"(?:的|所有的?)?(?:文件|目录|内容){_END}",
            ),
        ),
        greeting=r"\W*(你好|您好|嗨|哈喽|哈啰|早上好|上午好|下午好|晚上好|早安|晚安|谢谢|多谢|謝謝|再见).{0,10}",
        help=r"(帮助|幫助|说明|怎么用|如何使用|(能|会|可以)(做|干|帮)(些)?(什么|啥|哪些)|有(什么|哪些)功能|你是谁|你是什么)",
        trouble=r"(?<!慢)慢(?!慢)|卡(?:顿|死|住|了|得)|[很太好]卡|超时|没有?(?:响应|反应)|打不开|访问不了|连不上"
        r"|无法访问|宕机|挂了|崩溃|满了|快满|(?:占|用)满|磁盘|磁碟|硬盘|硬碟|内存|記憶體|负载|負載",
        web=r"网站|網站|网页|網頁|站点|服务器|伺服器|服务|接口|页面|頁面|商店|商城",
        disk=r"磁盘|磁碟|硬盘|硬碟|存储|空间|空間|分区",
        has_own_script=True,
    ),
    hello="你好！",
    cannot="抱歉，这件事我做不到。",
    how_to_get_a_model="我是演示程序：按固定的规则工作，不是语言模型。要使用真正的模型，请设置密钥"
    "（例如 `export OPENAI_API_KEY=...`），或者启动 Ollama，然后运行 `sandbur -m PROVIDER/MODEL`。",
    abilities="""\
我会做几件固定的事，用的是这台机器上真实的工具：
- “我的网站响应很慢，帮我看看怎么回事”（可以附上网址）、“磁盘满了”、“这台机器很慢”
- “这个文件夹里有什么”、“读取 文件名”、“搜索 文字”
- “创建文件 文件名，内容是 文字”、“把 文件名 里的 甲 改成 乙”
- “运行 命令”，或者“!命令”
""",
    plan_first="好的，我来看看。这需要做几项测量，所以我先制定一个计划。",
    tool_missing="这需要工具 {tool}，而这个会话没有提供它。",
    nothing_to_summarize="没有说过重要的内容。",
    no_result="没有可以报告的结果。",
    silent="{what} 已完成，没有输出。",
    more_lines="…… 还有 {count} 行",
    outcomes={
        "ok": "{what} 的结果如下：{quoted}",
        "error": "{what} 失败了。{quoted}",
        "timeout": "{what} 超过了时间限制。{quoted}",
        "denied": "{what} 没有运行。{content}",
        "unknown": _UNKNOWN,
        "interrupted": _UNKNOWN,
    },
    topics={"load": "负载", "web": "网站", "disk": "磁盘", "folders": "文件夹"},
    titles={
        "load": "测量 CPU 负载、内存和最忙的进程",
        "web": "找出哪些程序在监听网页请求，并测量响应时间",
        "disk": "检查磁盘用了多少空间",
        "folders": "找出当前文件夹中最大的子文件夹",
    },
    no_program="演示程序不会做这一步：{title}",
    this_step="（没有描述）",
    run_again="不清楚那条命令有没有运行过。它只读取信息，所以我再运行一次。",
    troubles={
        "denied": "有一条命令被拒绝了：{line}",
        "timeout": "有一条命令超过了时间限制。",
        "unknown": "不清楚有一条命令是否运行过。",
        "interrupted": "不清楚有一条命令是否运行过。",
    },
    load="最近一分钟的平均负载为 {load:.2f}，共 {cores} 个核心（每个核心 {share:.2f}）",
    overloaded="任务比核心多：每个核心平均有 {share:.2f} 个任务要运行",
    memory="可用内存 {available} MB，共 {total} MB（{share:.0f} %）",
    little_memory="可用内存只剩 {share:.0f} %",
    process="{name}（进程号 {pid}）",
    busiest="最忙的进程是 {process}，占用 {cpu:.1f} % 的 CPU 和 {memory:.1f} % 的内存",
    busy_core="{process}占满了一个核心：{cpu:.1f} %",
    fullest="用得最满的是 {mount}，已用 {used} %，还剩 {free} MB",
    full="{mount} 已用 {used} %，快满了",
    folder="当前文件夹共 {size} MB",
    largest="，其中最大的有：{folders}",
    folder_size="{name} {size} MB",
    ports="正在监听的 TCP 端口：{ports}",
    no_ports="没有",
    no_listener="这台机器上没有网页服务器在监听",
    not_timed="没有测量响应时间",
    nothing_answered="没有任何响应",
    no_answer_anywhere="没有一个地址响应 HTTP 请求",
    no_answer="{url} 没有响应 HTTP 请求（{total:.3f} 秒）",
    answered="{url} 返回 {status}，用时 {total:.3f} 秒（首字节 {first_byte:.3f} 秒）",
    fails="{url} 出错，返回 {status}",
    slow_lookup="解析 {url} 的域名用了 {lookup:.3f} 秒",
    slow_first_byte="{url} 过了 {first_byte:.3f} 秒才发出首字节",
    comma="、",
    semicolon="；",
    colon="：",
    measured="{topic}：{facts}。{trouble}",
    problem_mark="问题在于：",
    problems="{problems}。",
    not_measured="{topic}：没有测到。{why}",
    unreadable="命令没有输出可以理解的内容。{line}",
    likely="最可能的原因：{problems}",
    also="另外：",
    unexplained="在这台机器上测到的数据都不能解释这个问题。没有检查的有：应用程序自己的日志、它的数据库，"
    "以及它和用户之间的网络。",
    unmeasured="我什么都没有测到，所以说不出原因。",
    failed_mark="（失败）",
)
