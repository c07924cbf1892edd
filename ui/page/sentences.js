// The sentences of `why` in Chinese. The cloud writes them in English; `{}` stands for a value, which may be a sentence itself.
// Texts of nodes, the scheduler and container runtimes stay as they are. Pure.

const SENTENCES = {
  // ages and numbers
  "{} ago": "{}前",
  "{} restarts": "{} 次重启",
  "{} restart": "{} 次重启",
  "{} messages": "{} 条消息",
  "{} message": "{} 条消息",
  "no message": "无消息",
  "no reason": "无原因",
  "connected {}": "已连接{}",
  // pods
  "{}, deleted with a grace period until {}": "{}，已删除，宽限期至 {}",
  "to {}": "到 {}",
  "the scheduling gate {} holds it": "被调度门 {} 阻止",
  "its controller has to remove the gate": "须由其控制器移除该调度门",
  "create what is missing; the pod starts by itself then": "请创建缺少的对象，之后容器组会自动启动",
  "the scheduler {} has not considered it": "调度器 {} 尚未处理它",
  "check that a scheduler named {} runs; the usual one is default-scheduler": "请检查名为 {} 的调度器是否运行；通常使用 default-scheduler",
  "{} is Ready; connected {}": "{} 已就绪；已连接{}",
  "the kubelet reads it from the API server": "kubelet 从 API 服务器读取它",
  "{} in the queue to {}": "{}在发往 {} 的队列中",
  "wait for some seconds; if it stays, run `edge-agent check` on the node (its disk may be full), and look for failures of this node in the log of the cloud":
    "请等待几秒；若仍未送达，请在节点上运行 `edge-agent check`（磁盘可能已满），并在云端日志中查找该节点的错误",
  "not sent to {}; {}": "尚未发往 {}；{}",
  "sent to {}, which has not acknowledged it; {}": "已发往 {}，但节点尚未确认；{}",
  "{} has acknowledged revision {}": "{} 已确认版本 {}",
  "free the resource that the message names on the node (`edge-agent check` shows it); then delete the pod, and create it again unless a controller does":
    "请在节点上释放消息所指的资源（`edge-agent check` 会显示）；然后删除容器组，若没有控制器重建则请重新创建",
  "the node refused or ended it, and does not start it again: delete the pod and create it again, with requests that fit":
    "节点已拒绝或结束该容器组，且不会再次启动：请删除并以合适的资源请求重新创建",
  "the node has not refused it": "节点没有拒绝它",
  "it is held by its annotation edge.kubeedge.io/hold-upgrade until somebody releases it on the node":
    "它因注解 edge.kubeedge.io/hold-upgrade 而暂停，直到有人在节点上放行",
  "run `edge-agent ctl unhold -n {} {}` on the node": "请在节点上运行 `edge-agent ctl unhold -n {} {}`",
  "create it; the pod starts by itself then": "请创建它，之后容器组会自动启动",
  "correct the volume in the pod's spec, or what it names on the node": "请修正容器组规约中的卷，或卷所指的节点上的内容",
  "the ConfigMaps, Secrets and volumes that it names exist": "所引用的 ConfigMap、Secret 和卷均存在",
  "the {} {} does not exist in {}": "{} {} 在 {} 中不存在",
  "the {} {} is not bound to a volume ({})": "{} {} 未绑定到卷（{}）",
  "run `edge-agent check` on the node: it checks the runtime and the pod network": "请在节点上运行 `edge-agent check`：它会检查运行时和容器组网络",
  "no failure was reported": "没有报告失败",
  "address {}": "地址 {}",
  "{} of {} for container {}: {}": "容器 $3 的镜像 $2：$1：$4",
  "correct the name of the image or its pull secret, or import the image into the node's container runtime":
    "请修正镜像名称或拉取密钥，或将镜像导入节点的容器运行时",
  "no container waits for its image": "没有容器在等待镜像",
  "all containers have ended with code 0": "所有容器均以退出码 0 结束",
  "the node has reported nothing about its containers": "节点没有上报其容器的任何信息",
  "wait for some seconds; then run `edge-agent status` on the node, and read its log": "请等待几秒；然后在节点上运行 `edge-agent status` 并查看日志",
  "correct the liveness or startup probe of container {}, or find out why it does not answer: `kubectl logs {} --previous -c {}`":
    "请修正容器 {} 的存活或启动探针，或查明其无响应的原因：`kubectl logs {} --previous -c {}`",
  "read its output: `kubectl logs {} --previous -c {}`": "请查看其输出：`kubectl logs {} --previous -c {}`",
  "read its output: `kubectl logs {} -c {}`": "请查看其输出：`kubectl logs {} -c {}`",
  "an init container has not ended; read its log": "有初始化容器尚未结束；请查看其日志",
  "correct what the container's variables and mounts name": "请修正容器的变量和挂载所引用的内容",
  "wait for some seconds; then read the events of the pod with `kubectl describe`": "请等待几秒；然后用 `kubectl describe` 查看容器组的事件",
  "container {} waits: {} {}{}": "容器 {} 正在等待：{} {}{}",
  "container {} has ended: {}, exit code {}": "容器 {} 已结束：{}，退出码 {}",
  "all containers run": "所有容器均在运行",
  "all containers run, after {}": "所有容器均在运行，曾有{}",
  "completed": "已完成",
  "all containers are ready": "所有容器均已就绪",
  "not all containers are ready": "并非所有容器都已就绪",
  "correct the readiness probe, or what the container needs to become ready": "请修正就绪探针，或容器就绪所需的条件",
  "the node has not reported whether it is ready": "节点尚未上报其是否就绪",
  "wait for some seconds; then run `edge-agent status` on the node": "请等待几秒；然后在节点上运行 `edge-agent status`",
  "finalizers keep it: {}": "终结器阻止其删除：{}",
  "their controller has to remove them": "须由其控制器移除",
  "{} has not confirmed the end of its containers": "{} 尚未确认其容器已结束",
  "it is still in the API": "它仍在 API 中",
  "wait for the grace period; if the node has lost its data or never returns: `kubectl delete --force --grace-period 0`":
    "请等待宽限期结束；若节点数据丢失或不再恢复：`kubectl delete --force --grace-period 0`",
  "`kubectl get nodes` lists the nodes, and `cloudsim why node/NAME` shows why one is not Ready":
    "`kubectl get nodes` 列出节点，`cloudsim why node/NAME` 显示节点未就绪的原因",
  "free memory, disk space or processes on the node: `cloudsim why node/NAME` and `edge-agent check` on it show more":
    "请在节点上释放内存、磁盘空间或进程：`cloudsim why node/NAME` 和节点上的 `edge-agent check` 显示详情",
  "allow new pods on the node: `kubectl uncordon NAME`": "请允许节点接收新容器组：`kubectl uncordon NAME`",
  "add a node that fits, or change requests, nodeSelector, affinity or tolerations of the pod":
    "请添加合适的节点，或修改容器组的资源请求、nodeSelector、亲和性或容忍度",
  // nodes
  "run `edge-agent check` on the node: it names what keeps it from connecting": "请在节点上运行 `edge-agent check`：它会指出无法连接的原因",
  "do what the message says; `edge-agent check` on the node shows the details": "请按消息所述处理；节点上的 `edge-agent check` 显示详情",
  "run `edge-agent check` on the node; one of `cloudsim up --nodes` or `hollow` returns when that program is started again":
    "请在节点上运行 `edge-agent check`；`cloudsim up --nodes` 或 `hollow` 的节点会在程序重新启动后恢复",
  "{} is connected, but has not registered its Node": "{} 已连接，但尚未注册其 Node",
  "set modules.edged.registerNode: true in the node's edgecore.yaml, or read its log":
    "请在节点的 edgecore.yaml 中设置 modules.edged.registerNode: true，或查看其日志",
  "there is no node {}; its agent was rejected {} ago: {}": "没有节点 {}；其代理在{}前被拒绝：{}",
  "there is no node {}{}": "没有节点 {}{}",
  "correct the name, or join the machine: `edge-agent join --cloud ADDRESS --token TOKEN` (`cloudsim token` prints TOKEN)":
    "请修正名称，或让该机器加入：`edge-agent join --cloud ADDRESS --token TOKEN`（`cloudsim token` 打印 TOKEN）",
  "{}, but without a heartbeat for {}: the link may be cut": "{}，但已有 {} 没有心跳：链路可能已断开",
  "to this cloud for {} from {}": "到此云端 {}，来自 {}",
  "not an edge node: its kubelet reaches the API server itself": "不是边缘节点：其 kubelet 直接访问 API 服务器",
  "unknown: not all replicas of the cloud answered": "未知：并非所有云端副本都已应答",
  "{} is not connected; {}": "{} 未连接；{}",
  "{}; this cloud has a fault for it: {}": "{}；此云端对它注入了故障：{}",
  "{}; rejected {} ago: {}": "{}；{}前被拒绝：{}",
  "{}; the machine was reset (`edge-agent reset`)": "{}；该机器已被重置（`edge-agent reset`）",
  "join it again: `edge-agent join --cloud ADDRESS --token TOKEN`; or remove it: `kubectl delete node {}`":
    "请重新加入：`edge-agent join --cloud ADDRESS --token TOKEN`；或将其移除：`kubectl delete node {}`",
  "it has never sent a heartbeat": "它从未发送心跳",
  "last heartbeat {} ago": "上次心跳在{}前",
  "the clock of the node is {} fast, compared with this machine": "与本机相比，节点的时钟快 {}",
  "no second agent is known": "没有发现第二个代理",
  "no other agent has this name": "没有其他代理使用此名称",
  "{} has this name too; it was refused {} times, last {} ago": "{} 也使用此名称；已被拒绝 {} 次，最近一次在{}前",
  "give one of them another name (`edge-agent reset`, then `join --name`), or stop it":
    "请为其中之一更换名称（先 `edge-agent reset`，再 `join --name`），或将其停止",
  "set the clock of the node: timedatectl set-ntp true": "请校准节点的时钟：timedatectl set-ntp true",
  "Ready is {}: {} ({})": "Ready 为 {}：{}（{}）",
  "run `edge-agent check` on the node; most often its container runtime or pod network is missing":
    "请在节点上运行 `edge-agent check`；最常见的原因是缺少容器运行时或容器组网络",
  "the node has reported no status yet": "节点尚未上报状态",
  "wait for some seconds; then run `edge-agent check` on the node": "请等待几秒；然后在节点上运行 `edge-agent check`",
  "{}: new pods are rejected": "{}：拒绝新容器组",
  "free memory, disk space or processes on the node; `edge-agent check` shows how much is missing. The node accepts pods again within five minutes":
    "请在节点上释放内存、磁盘空间或进程；`edge-agent check` 显示缺少多少。节点会在五分钟内重新接收容器组",
  "the node is cordoned: new pods are not scheduled to it": "节点已被隔离：新容器组不会调度到该节点",
  "new pods are accepted": "接收新容器组",
  "only pods that tolerate {}": "仅接收容忍 {} 的容器组",
  "its kubelet serves logs, exec and port-forward": "其 kubelet 提供日志、exec 和端口转发",
  "unknown without a session": "没有会话，无法得知",
  "logs, exec and port-forward have a tunnel for {}": "日志、exec 和端口转发的隧道已建立 {}",
  "the stream tunnel of the new session is not open yet": "新会话的流隧道尚未打开",
  "the simulated node has no stream tunnel": "模拟节点没有流隧道",
  "{} has no stream tunnel: logs, exec and port-forward do not work": "{} 没有流隧道：日志、exec 和端口转发不可用",
  "run `edge-agent check` on the node: it names what blocks the cloud's port for streams (10004); if modules.edgeStream is disabled on purpose, nothing else is affected":
    "请在节点上运行 `edge-agent check`：它会指出云端流端口（10004）被阻断的原因；若有意禁用了 modules.edgeStream，则不影响其他功能",
  "nothing waits to be sent": "没有待发送的消息",
  "{} to be sent": "{}待发送",
  "periods without a link": "周期性断开链路",
  // devices
  "it names no model": "未指定模型",
  "set spec.deviceModelRef.name to a DeviceModel of the same namespace": "请将 spec.deviceModelRef.name 设为同一命名空间的 DeviceModel",
  "there is no DeviceModel {} in its namespace": "其命名空间中没有 DeviceModel {}",
  "create the model, or correct spec.deviceModelRef.name": "请创建该模型，或修正 spec.deviceModelRef.name",
  "its property {} is not in the model {}": "其属性 {} 不在模型 {} 中",
  "add it to the model, which has {}": "请将其加入模型；模型现有 {}",
  "it names no node": "未指定节点",
  "set spec.nodeName to the node that the device is attached to": "请将 spec.nodeName 设为设备所连接的节点",
  "{} is connected {}": "{} 已连接{}",
  "the node has acknowledged revision {}": "节点已确认版本 {}",
  "the node has not acknowledged it": "节点尚未确认",
  "wait for some seconds; if it stays, look for failures of this node in the log of the cloud": "请等待几秒；若仍未送达，请在云端日志中查找该节点的错误",
  "the mapper reports {}, last {}": "映射器上报 {}，最近在 {}",
  "the mapper reports that the device is {}; it was online {}": "映射器上报设备状态为 {}；上次在线：{}",
  "check the device and its connection to the node": "请检查设备及其与节点的连接",
  "values were reported, no state": "已上报数值，未上报状态",
  "no value and no state was ever reported": "从未上报数值或状态",
  "start the mapper for protocol {} on the node; `edge-agent status` there lists registered mappers":
    "请在节点上启动协议 {} 的映射器；节点上的 `edge-agent status` 列出已注册的映射器",
  "{} is desired as {}, and {} is reported": "{} 的期望值为 {}，上报值为 {}",
  "wait for the next report; then check that the mapper writes the property and that the model allows it (ReadWrite)":
    "请等待下次上报；然后检查映射器是否写入该属性，以及模型是否允许（ReadWrite）",
  "{} is desired as {}, and no value is reported": "{} 的期望值为 {}，没有上报值",
  "check that the property has reportToCloud, and that the mapper reads it": "请检查该属性是否设置了 reportToCloud，以及映射器是否读取它",
  "all desired values are reported": "所有期望值均已上报",
  // the cloud
  "the cloud cannot store objects; its disk is probably full": "云端无法存储对象；其磁盘可能已满",
  "free space on the disk of its data directory (of the packaged service: /var/lib/cloudsim); its log names the cause (journalctl -u cloudsim)":
    "请释放其数据目录所在磁盘的空间（软件包服务为 /var/lib/cloudsim）；其日志会指出原因（journalctl -u cloudsim）",
};

// Longer texts are of nodes: to find their parts would take long.
const MAX_LENGTH = 600;

let patterns = null;

function compile([english, chinese]) {
  const parts = english.split("{}").map((part) => part.replace(/[.*+?^${}()|[\]\\]/g, "\\$&"));
  return { pattern: new RegExp(`^${parts.join("([^]*?)")}$`), chinese };
}

// Returns a sentence in Chinese, or as it is if it is not known.
export function inChinese(text) {
  if (text.length > MAX_LENGTH) return text;
  if (isKnown(text)) return SENTENCES[text];
  // those with the most letters of their own first
  patterns ??= Object.entries(SENTENCES).filter(([english]) => english.includes("{}")).sort((a, b) => b[0].length - a[0].length).map(compile);
  for (const { pattern, chinese } of patterns) {
    const found = pattern.exec(text);
    if (!found) continue;
    const values = found.slice(1).map(inChinese);
    let next = 0;
    return chinese.replace(/\{\}|\$(\d)/g, (all, number) => values[number ? number - 1 : next++]);
  }
  return text;
}

export const isKnown = (template) => Object.hasOwn(SENTENCES, template);
