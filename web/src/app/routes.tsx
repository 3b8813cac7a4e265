import { lazy } from 'react'
import { Route } from 'react-router'
import { Fleet } from '../pages/fleet/Fleet'
import { Missing } from '../pages/missing/Missing'
import { Service } from '../pages/service/Service'
import { Services } from '../pages/services/Services'
import { Part } from '../ui/Part'
import { Named } from './Named'

// The pages that people open less often are one script, which comes after the first page.
const others = () => import('./others')
type Others = Awaited<ReturnType<typeof others>>

const other = <K extends keyof Others>(name: K) => lazy(async () => ({ default: (await others())[name] }))

const Access = other('Access')
const Activity = other('Activity')
const Cluster = other('Cluster')
const Clusters = other('Clusters')
const Config = other('Config')
const Global = other('Global')
const Globals = other('Globals')
const Hub = other('Hub')
const Join = other('Join')
const Me = other('Me')
const Recording = other('Recording')
const Resource = other('Resource')
const Source = other('Source')
const Sources = other('Sources')

// The editor brings a reader of YAML along, which other pages do without.
const Apply = lazy(() => import('../pages/apply/Apply'))
const Explore = lazy(() => import('../pages/explore/Explore'))

// A hub that is upgraded has no scripts of this tab any more: they are loaded before somebody needs them.
export const loadOthers = () => void others().catch(() => undefined)

// Kinds whose page is what is written down.
const plain = [
  'project',
  'role',
  'grant',
  'serviceaccount',
  'configset',
  'secret',
  'backend',
  'sink',
  'agentconfig',
  'viewset',
  'alert',
]

export const routes = (
  <>
    <Route path="/" element={<Fleet />} />
    <Route path="/services" element={<Services />} />
    <Route
      path="/service/:name"
      element={
        <Named>
          <Service />
        </Named>
      }
    />
    <Route path="/clusters" element={<Clusters />} />
    <Route
      path="/cluster/:name"
      element={
        <Named>
          <Cluster />
        </Named>
      }
    />
    <Route
      path="/cluster/:name/explore/*"
      element={
        <Named>
          <Part what="the explorer">
            <Explore />
          </Part>
        </Named>
      }
    />
    <Route path="/sources" element={<Sources />} />
    <Route path="/activity" element={<Activity />} />
    <Route
      path="/source/:name"
      element={
        <Named>
          <Source />
        </Named>
      }
    />
    <Route path="/join" element={<Join />} />
    <Route
      path="/cluster/:name/join"
      element={
        <Named>
          <Join />
        </Named>
      }
    />
    <Route path="/globalservices" element={<Globals />} />
    <Route
      path="/globalservice/:name"
      element={
        <Named>
          <Global />
        </Named>
      }
    />
    <Route path="/config" element={<Config />} />
    <Route path="/access" element={<Access />} />
    <Route path="/recording/:id" element={<Recording />} />
    <Route path="/hub" element={<Hub />} />
    <Route path="/me" element={<Me />} />
    <Route
      path="/apply"
      element={
        <Part what="the editor">
          <Apply />
        </Part>
      }
    />
    {plain.map((kind) => (
      <Route
        key={kind}
        path={`/${kind}/:name`}
        element={
          <Named>
            <Resource kind={kind} />
          </Named>
        }
      />
    ))}
    <Route path="*" element={<Missing />} />
  </>
)
