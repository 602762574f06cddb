// Search for a site that is opened from a folder. There a browser lets a page neither fetch the
// search index nor start a worker. So the index comes as a script, and the worker runs in a frame.
if (location.protocol === "file:") {
  const base = new URL("..", document.currentScript.src)

  window.__search = {
    index: new Promise(resolve => {
      window.cenote_found = resolve
      const script = document.createElement("script")
      script.src = new URL("search/search_index.js", base)
      document.head.append(script)
    })
  }

  window.Worker = class extends EventTarget {
    constructor(url) {
      super()
      this.frame = document.createElement("iframe")
      this.frame.hidden = true
      document.documentElement.append(this.frame)
      const inside = this.frame.contentWindow
      this.ready = new Promise(resolve => {
        inside.postMessage = data => this.dispatchEvent(new MessageEvent("message", { data }))
        const script = inside.document.createElement("script")
        script.src = url
        script.onload = resolve
        inside.document.head.append(script)
      })
    }

    postMessage(data) {
      const inside = this.frame.contentWindow
      this.ready.then(() => inside.dispatchEvent(new inside.MessageEvent("message", { data })))
    }
  }
}
